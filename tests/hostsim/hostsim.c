/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostsim [OPTION]... HOST.txt MOUNTPOINT: the text host as a file system. Returns when it is mounted; umount(8) ends
 * it. README.md has the options and the control files.
 *
 * FUSE's low level, because each name has its own time to live there: the kernel may keep what never changes,
 * which makes a scan cheap, and must ask again for what comes and goes. */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "sim.h"

#define FOREVER  3600.0
#define HOST_MAX (64u * 1024 * 1024)
#define HEADER_BYTES 64

static struct {
	pthread_mutex_t lock; /* around everything but hanging */
	struct sim sim;
} host = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct fuse_session *session;

void sim_lock(void)
{
	(void)pthread_mutex_lock(&host.lock);
}

void sim_unlock(void)
{
	(void)pthread_mutex_unlock(&host.lock);
}

static struct node *node_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? host.sim.root : (struct node *)ino; /* nodes are never freed */
}

static struct stat attributes(const struct node *n)
{
	struct stat st = { .st_ino = n->parent ? (ino_t)n : FUSE_ROOT_ID, .st_nlink = 1 };

	if (n->type == TEXT_DIR)
		st.st_mode = S_IFDIR | 0755;
	else if (n->type == TEXT_LINK)
		st.st_mode = S_IFLNK | 0777;
	else if (!n->text && !n->bytes && !n->read)
		st.st_mode = S_IFREG | 0200;
	else
		st.st_mode = S_IFREG | (n->write ? 0644 : 0444);
	st.st_size = n->type == TEXT_LINK ? (off_t)strlen(n->text) : n->type == TEXT_BYTES ? (off_t)n->len : 4096;
	return st;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { 0 };
	const struct node *n;

	sim_lock();
	n = node_child(node_of(parent), name, strlen(name));
	if (n && !node_of(parent)->dead) {
		e.ino = (fuse_ino_t)n;
		e.attr = attributes(n);
		e.entry_timeout = n->fixed ? FOREVER : 0;
		e.attr_timeout = n->fixed ? FOREVER : 0;
	}
	sim_unlock();
	(void)(e.ino ? fuse_reply_entry(req, &e) : fuse_reply_err(req, ENOENT));
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	sim_lock();
	st = attributes(node_of(ino));
	sim_unlock();
	(void)fuse_reply_attr(req, &st, node_of(ino)->fixed ? FOREVER : 0);
}

/* O_TRUNC comes so; sysfs ignores it, too. */
static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	(void)attr;
	if (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME | FUSE_SET_ATTR_MTIME_NOW))
		(void)fuse_reply_err(req, EPERM);
	else
		on_getattr(req, ino, fi);
}

static void on_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[2 * SIM_PATH_MAX] = "";

	sim_lock();
	(void)snprintf(target, sizeof(target), "%s", node_of(ino)->text);
	sim_unlock();
	(void)fuse_reply_readlink(req, target);
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	autofree char *buf = malloc(size);
	size_t used = 0;
	off_t i = 0;

	(void)fi;
	if (!buf) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	sim_lock();
	for (const struct node *c = node_of(ino)->child; c; c = c->next) {
		struct stat st = attributes(c);
		size_t need;

		if (i++ < off)
			continue;
		need = fuse_add_direntry(req, buf + used, size - used, c->name, &st, i);
		if (need > size - used)
			break;
		used += need;
	}
	sim_unlock();
	(void)fuse_reply_buf(req, buf, used);
}

/* ---- files ------------------------------------------------------------------------------------------ */

/* The content of a text file as of now, for the handle; config space has none, it is read live. */
static char *content(struct node *n)
{
	char *text = NULL;

	if (n->read)
		return n->read(&host.sim, n);
	if (asprintf(&text, "%s%s", n->text ? n->text : "", n->text ? "\n" : "") < 0)
		return NULL;
	return text;
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	bool writes = (fi->flags & O_ACCMODE) != O_RDONLY, reads = (fi->flags & O_ACCMODE) != O_WRONLY;
	int r = 0;

	sim_lock();
	if (n->dead)
		r = ENODEV;
	else if ((writes && (!n->write || fuse_req_ctx(req)->uid)) || (reads && !n->text && !n->bytes && !n->read))
		r = EACCES; /* sysfs says so by the mode, to root by kernfs_fop_open() */
	else if (n->type != TEXT_BYTES)
		fi->fh = (uint64_t)content(n);
	else
		fi->fh = fuse_req_ctx(req)->uid ? HEADER_BYTES : 0; /* who opened it counts (pci_read_config(), drivers/pci/pci-sysfs.c) */
	fi->direct_io = 1; /* sizes are not what stat says, and nothing may be cached */
	sim_unlock();
	(void)(r ? fuse_reply_err(req, r) : fuse_reply_open(req, fi));
}

/* sysfs takes no new files: its directories have no create operation, which open(O_CREAT) calls EACCES. */
static void on_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)fi;
	(void)fuse_reply_err(req, EACCES);
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (node_of(ino)->type != TEXT_BYTES)
		free((char *)fi->fh);
	(void)fuse_reply_err(req, 0);
}

/* Until its time (ms) is over, the faults are cleared, or the caller is killed. */
static void hang(fuse_req_t req, unsigned time, unsigned cleared)
{
	uint64_t now = clock_ms(), end = now + time;

	for (; now < end && !fuse_req_interrupted(req); now = clock_ms()) {
		uint64_t ms = end - now < 5 ? end - now : 5;
		bool over;

		sim_lock();
		over = host.sim.cleared != cleared;
		sim_unlock();
		if (over)
			return;
		(void)nanosleep(&(struct timespec){ .tv_nsec = (long)ms * 1000000 }, NULL);
	}
}

/* What is left of the file from off on, copied: the handle may be released, and config space written, by another
 * thread while the answer goes out. */
static char *slice(const struct node *n, const struct fuse_file_info *fi, size_t *size, off_t off)
{
	const char *from = n->type == TEXT_BYTES ? (const char *)n->bytes : (const char *)fi->fh;
	size_t len = n->type == TEXT_BYTES ? (fi->fh && n->len > fi->fh ? (size_t)fi->fh : n->len) : from ? strlen(from) : 0;
	char *copy;

	len = (size_t)off < len ? len - (size_t)off : 0;
	if (len < *size)
		*size = len;
	copy = malloc(*size + 1);
	if (copy && n->type == TEXT_BYTES && n->parent->mute)
		memset(copy, 0xff, *size); /* nobody answers: all ones (PCIe 2.3.2) */
	else if (copy && *size)
		memcpy(copy, from + off, *size);
	return copy;
}

/* What a read or write of this file has to suffer; its delay is suffered now. Returns how often faults were cleared. */
static unsigned suffer(fuse_req_t req, enum fault_op op, const struct node *n, struct spoil *ret)
{
	char path[SIM_PATH_MAX];
	unsigned cleared;

	sim_lock();
	*ret = node_path(path, n)[0] == '.' ? (struct spoil){ 0 } : fault_hit(&host.sim, op, path);
	cleared = host.sim.cleared;
	sim_unlock();
	hang(req, ret->delay, cleared);
	return cleared;
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	autofree char *copy = NULL;
	struct spoil spoil;
	unsigned cleared = suffer(req, FAULT_READ, n, &spoil);
	int r;

	sim_lock();
	r = n->dead ? -ENODEV : spoil.error;
	copy = r == 0 ? slice(n, fi, &size, off) : NULL;
	sim_unlock();
	hang(req, spoil.hang, cleared);
	if (r == 0 && !copy)
		r = -ENOMEM;
	(void)(r < 0 ? fuse_reply_err(req, -r) : fuse_reply_buf(req, copy, size));
}

/* Names that the kernel may keep are taken back once the node is gone. Not under the lock: the kernel waits for
 * lookups in the same directory, and they for us. */
static void forget_stale(void)
{
	struct node *n;

	sim_lock();
	n = host.sim.stale;
	host.sim.stale = NULL;
	sim_unlock();
	for (; n; n = n->next)
		(void)fuse_lowlevel_notify_inval_entry(
			session, n->parent->parent ? (fuse_ino_t)n->parent : FUSE_ROOT_ID, n->name, strlen(n->name));
}

/* A hang comes after the effect: who is killed then has done the write, but does not know it. */
static void on_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	autofree char *value = strndup(buf, size), *raw = malloc(size + 1);
	char path[SIM_PATH_MAX];
	struct spoil spoil;
	unsigned cleared = suffer(req, FAULT_WRITE, n, &spoil);
	int r = value && raw ? spoil.error : -ENOMEM;

	(void)fi;
	sim_lock();
	if (r == 0) {
		memcpy(raw, buf, size);
		raw[size] = '\0';
		host.sim.now = spoil;
		r = n->dead ? -ENODEV : spoil.ignored ? 0 : n->write(&host.sim, n, raw, size, off);
		host.sim.now = (struct spoil){ 0 };
	}
	if (value && node_path(path, n)[0] != '.')
		log_add(&host.sim, path, value, r);
	sim_unlock();
	forget_stale();
	hang(req, spoil.hang, cleared);
	(void)(r < 0 ? fuse_reply_err(req, -r) : fuse_reply_write(req, size));
}

/* ---- start ------------------------------------------------------------------------------------------ */

static const struct fuse_lowlevel_ops ops = {
	.lookup = on_lookup,
	.getattr = on_getattr,
	.setattr = on_setattr,
	.readlink = on_readlink,
	.readdir = on_readdir,
	.open = on_open,
	.create = on_create,
	.release = on_release,
	.read = on_read,
	.write = on_write,
};

static int load(const char *file, bool vfio, const char *cmdline)
{
	auto_(text_host_free) struct text_host *t = NULL;
	struct error err = ERROR_INIT;
	autofree char *text = NULL;
	size_t len = 0;
	int r = file_read(&text, &len, file, HOST_MAX);

	if (r < 0)
		(void)error_set(&err, r, "cannot read %s: %s", file, strerror(-r));
	else
		r = text_host_parse(&t, text, len, file, &err);
	if (r == 0 && sim_boot(&host.sim, t, vfio, cmdline) < 0)
		r = error_set(&err, -EINVAL, "%s: a link in sys/bus/pci/devices leads to no device", file);
	if (r < 0)
		(void)fprintf(stderr, "hostsim: %s\n", err.text);
	return r;
}

static int serve(const char *program, const char *mountpoint, bool foreground)
{
	const char *argv[] = { program, "-ofsname=hostsim,allow_other", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, (char **)argv);
	struct fuse_session *se = session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r = EXIT_FAILURE;

	if (config)
		fuse_loop_cfg_set_max_threads(config, 64); /* each that hangs or is slow keeps one */
	if (se && config && fuse_session_mount(se, mountpoint) == 0) {
		if (fuse_set_signal_handlers(se) == 0 && fuse_daemonize(foreground) == 0)
			r = fuse_session_loop_mt(se, config) ? EXIT_FAILURE : EXIT_SUCCESS;
		fuse_remove_signal_handlers(se);
		fuse_session_unmount(se);
	}
	if (config)
		fuse_loop_cfg_destroy(config);
	if (se)
		fuse_session_destroy(se);
	fuse_opt_free_args(&args);
	return r;
}

static const char *const groups[] = { "text", "boot", "fixed" }; /* enum groups */

struct options {
	bool no_vfio, foreground;
	const char *cmdline;
};

/* What is wrong with its argument; NULL: nothing. */
static const char *take(struct options *o, int c, const char *arg)
{
	struct sim *s = &host.sim;
	uint64_t v = 0;
	size_t i = 0;
	int r;

	switch (c) {
	case 'n':
		o->no_vfio = true;
		return NULL;
	case 'f':
		o->foreground = true;
		return NULL;
	case 'o':
		s->old_parser = true;
		return NULL;
	case 'G':
		s->guests = true;
		return NULL;
	case 'c':
		o->cmdline = arg;
		return NULL;
	case 'x':
		return fault_add(s, arg) < 0 ? "is no fault" : NULL;
	case 'd':
		r = parse_uint(&v, arg, 10, 3600 * 1000);
		s->vf_delay = (unsigned)v;
		return r < 0 ? "are no milliseconds" : NULL;
	case 'g':
		while (i < ARRAY_SIZE(groups) && strcmp(groups[i], arg) != 0)
			i++;
		s->groups = (enum groups)i;
		return i == ARRAY_SIZE(groups) ? "is not text, boot or fixed" : NULL;
	default:
		r = uevent_listen(arg);
		return r < 0 ? strerror(-r) : NULL;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "no-vfio", no_argument, NULL, 'n' },
						 { "foreground", no_argument, NULL, 'f' },
						 { "fault", required_argument, NULL, 'x' },
						 { "groups", required_argument, NULL, 'g' },
						 { "cmdline", required_argument, NULL, 'c' },
						 { "old-config-acs", no_argument, NULL, 'o' },
						 { "guests", no_argument, NULL, 'G' },
						 { "vf-delay", required_argument, NULL, 'd' },
						 { "uevents", required_argument, NULL, 'u' },
						 { 0 } };
	struct options o = { 0 };
	const char *wrong;
	int c;

	while ((c = getopt_long(argc, argv, "f", options, NULL)) != -1) {
		if (c == '?')
			return 2;
		wrong = take(&o, c, optarg);
		if (wrong) {
			(void)fprintf(stderr, "hostsim: \"%s\": %s; see tests/hostsim/README.md\n", optarg, wrong);
			return 2;
		}
	}
	if (argc - optind != 2) {
		(void)fputs("usage: hostsim [OPTION]... HOST.txt MOUNTPOINT; see tests/hostsim/README.md\n", stderr);
		return 2;
	}
	if (load(argv[optind], !o.no_vfio, o.cmdline) < 0)
		return EXIT_FAILURE;
	return serve(argv[0], argv[optind + 1], o.foreground);
}
