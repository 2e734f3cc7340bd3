/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hostsim [--no-vfio] [--foreground] [--fault RULE]... HOST.txt MOUNTPOINT: the text host as a file system. Returns
 * when it is mounted; umount(8) ends it. README.md has the control files.
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

#include "base/error.h"
#include "base/file.h"
#include "sim.h"

#define FOREVER 3600.0
#define HOST_MAX (64u * 1024 * 1024)

static struct {
	pthread_mutex_t lock; /* around everything but hanging */
	struct sim      sim;
} host = { .lock = PTHREAD_MUTEX_INITIALIZER };

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

	(void)pthread_mutex_lock(&host.lock);
	n = node_child(node_of(parent), name, strlen(name));
	if (n && !node_of(parent)->dead) {
		e.ino = (fuse_ino_t)n;
		e.attr = attributes(n);
		e.entry_timeout = n->fixed ? FOREVER : 0;
		e.attr_timeout = n->fixed ? FOREVER : 0;
	}
	(void)pthread_mutex_unlock(&host.lock);
	(void)(e.ino ? fuse_reply_entry(req, &e) : fuse_reply_err(req, ENOENT));
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	(void)pthread_mutex_lock(&host.lock);
	st = attributes(node_of(ino));
	(void)pthread_mutex_unlock(&host.lock);
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

	(void)pthread_mutex_lock(&host.lock);
	(void)snprintf(target, sizeof(target), "%s", node_of(ino)->text);
	(void)pthread_mutex_unlock(&host.lock);
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
	(void)pthread_mutex_lock(&host.lock);
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
	(void)pthread_mutex_unlock(&host.lock);
	(void)fuse_reply_buf(req, buf, used);
}

/* ---- files ------------------------------------------------------------------------------------------ */

/* The content of a text file as of now, for the handle; config space has none, it is read live. */
static char *content(struct node *n)
{
	char *text = NULL;

	if (n->read)
		return n->read(&host.sim);
	if (asprintf(&text, "%s%s", n->text ? n->text : "", n->text ? "\n" : "") < 0)
		return NULL;
	return text;
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	bool writes = (fi->flags & O_ACCMODE) != O_RDONLY, reads = (fi->flags & O_ACCMODE) != O_WRONLY;
	int r = 0;

	(void)pthread_mutex_lock(&host.lock);
	if (n->dead)
		r = ENODEV;
	else if ((writes && !n->write) || (reads && !n->text && !n->bytes && !n->read))
		r = EACCES; /* sysfs says so by the mode, to root by kernfs_fop_open() */
	else if (n->type != TEXT_BYTES)
		fi->fh = (uint64_t)content(n);
	fi->direct_io = 1; /* sizes are not what stat says, and nothing may be cached */
	(void)pthread_mutex_unlock(&host.lock);
	(void)(r ? fuse_reply_err(req, r) : fuse_reply_open(req, fi));
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	free((char *)fi->fh);
	(void)fuse_reply_err(req, 0);
}

/* Until its time is over, the faults are cleared, or the caller is killed. */
static void hang(fuse_req_t req, unsigned seconds, unsigned cleared)
{
	struct timespec nap = { .tv_nsec = 5 * 1000 * 1000 };

	for (unsigned i = 0; i < seconds * 200 && !fuse_req_interrupted(req); i++) {
		bool over;

		(void)pthread_mutex_lock(&host.lock);
		over = host.sim.cleared != cleared;
		(void)pthread_mutex_unlock(&host.lock);
		if (over)
			return;
		(void)nanosleep(&nap, NULL);
	}
}

/* What is left of the file from off on, copied: the handle may be released, and config space written, by another
 * thread while the answer goes out. */
static char *slice(const struct node *n, const struct fuse_file_info *fi, size_t *size, off_t off)
{
	const char *from = n->type == TEXT_BYTES ? (const char *)n->bytes : (const char *)fi->fh;
	size_t len = n->type == TEXT_BYTES ? n->len : from ? strlen(from) : 0;
	char *copy;

	len = (size_t)off < len ? len - (size_t)off : 0;
	if (len < *size)
		*size = len;
	copy = malloc(*size + 1);
	if (copy && *size)
		memcpy(copy, from + off, *size);
	return copy;
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	autofree char *copy = NULL;
	char path[SIM_PATH_MAX];
	unsigned seconds = 0, cleared;
	int r;

	(void)pthread_mutex_lock(&host.lock);
	r = fault_hit(&host.sim, FAULT_READ, node_path(path, n), &seconds);
	cleared = host.sim.cleared;
	if (n->dead)
		r = -ENODEV;
	copy = r == 0 ? slice(n, fi, &size, off) : NULL;
	(void)pthread_mutex_unlock(&host.lock);
	if (seconds)
		hang(req, seconds, cleared);
	if (r == 0 && !copy)
		r = -ENOMEM;
	(void)(r < 0 ? fuse_reply_err(req, -r) : fuse_reply_buf(req, copy, size));
}

/* A hang comes after the effect: who is killed then has done the write, but does not know it. */
static void on_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	autofree char *value = strndup(buf, size), *raw = malloc(size + 1);
	char path[SIM_PATH_MAX];
	unsigned seconds = 0, cleared;
	int r = value && raw ? 0 : -ENOMEM;

	(void)fi;
	(void)pthread_mutex_lock(&host.lock);
	(void)node_path(path, n);
	if (r == 0) {
		memcpy(raw, buf, size);
		raw[size] = '\0';
		r = path[0] == '.' ? 0 : fault_hit(&host.sim, FAULT_WRITE, path, &seconds);
	}
	if (r == 0)
		r = n->dead ? -ENODEV : n->write(&host.sim, n, raw, size, off);
	if (value && path[0] != '.')
		log_add(&host.sim, path, value, r);
	cleared = host.sim.cleared;
	(void)pthread_mutex_unlock(&host.lock);
	if (seconds)
		hang(req, seconds, cleared);
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
	.release = on_release,
	.read = on_read,
	.write = on_write,
};

static void add_controls(struct sim *s)
{
	struct node *n = node_add(s, TEXT_FILE, NULL, ".hostsim/fault");

	n->read = fault_read;
	n->write = fault_write;
	n = node_add(s, TEXT_FILE, NULL, ".hostsim/log");
	n->read = log_read;
	n->write = log_write;
	node_add(s, TEXT_FILE, NULL, ".hostsim/state")->read = sim_state;
}

static int load(const char *file, bool vfio)
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
	if (r == 0 && sim_boot(&host.sim, t, vfio) < 0)
		r = error_set(&err, -EINVAL, "%s: a link in sys/bus/pci/devices leads to no device", file);
	if (r < 0)
		(void)fprintf(stderr, "hostsim: %s\n", err.text);
	else
		add_controls(&host.sim);
	return r;
}

static int serve(const char *program, const char *mountpoint, bool foreground)
{
	const char *argv[] = { program, "-ofsname=hostsim", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, (char **)argv);
	struct fuse_session *se = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r = EXIT_FAILURE;

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

int main(int argc, char **argv)
{
	static const struct option options[] = { { "no-vfio", no_argument, NULL, 'n' },
						 { "foreground", no_argument, NULL, 'f' },
						 { "fault", required_argument, NULL, 'x' },
						 { 0 } };
	bool vfio = true, foreground = false;
	int c;

	while ((c = getopt_long(argc, argv, "f", options, NULL)) != -1) {
		vfio = vfio && c != 'n';
		foreground = foreground || c == 'f';
		if (c == '?')
			return 2;
		if (c == 'x' && fault_add(&host.sim, optarg) < 0) {
			(void)fprintf(stderr, "hostsim: \"%s\" is no fault; see tests/hostsim/README.md\n", optarg);
			return 2;
		}
	}
	if (argc - optind != 2) {
		(void)fputs("usage: hostsim [--no-vfio] [--foreground] [--fault RULE]... HOST.txt MOUNTPOINT\n", stderr);
		return 2;
	}
	if (load(argv[optind], vfio) < 0)
		return EXIT_FAILURE;
	return serve(argv[0], argv[optind + 1], foreground);
}
