/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/args.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/sbuf.h"
#include "plan/vf.h"

enum kind {
	FLAG,    /* bool at offset */
	TEXT,    /* const char * at offset */
	MAYBE,   /* the same; only --name=VALUE gives one, else it is "" */
	SECONDS, /* uint64_t at offset */
	COUNT,   /* the same, of no seconds */
	FORMAT,  /* -o */
	RELEASE, /* uint64_t at offset: "8.1.2" as libvirt counts, 8001002 */
	/* members of the request, by key */
	NUMBER,
	INTEGER, /* may be negative */
	SIZE,
	STRING,
	LIST,    /* may be repeated */
	YES,     /* true; takes no value */
	SETTINGS, /* KEY=VALUE,... of VFs */
	CONTENT, /* of a file, as a string */
	LINES,   /* of a file, as a list; may be repeated */
	JSON,    /* of a file */
	PAIR,    /* KEY=VALUE of an object; may be repeated */
	DISK,    /* {"size"} of a list; may be repeated */
};

struct option {
	const char *name;
	char        letter;
	const char *value; /* for the help; NULL: takes none */
	enum kind   kind;
	unsigned    group;
	size_t      offset;
	const char *parent, *key; /* in the request */
	const char *help;
};

#define AT(member) offsetof(struct ctl_args, member)

static const struct option options[] = {
	{ "gpus", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "gpus", "GPUs" },
	{ "shape", 0, "NAME", STRING, CTL_REQUEST, 0, NULL, "shape", "what [shapes] of velad.conf has, beside these flags" },
	{ "vfs-per-gpu", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "vfs_per_gpu", "VFs for each GPU, on a NIC near it" },
	{ "vfs", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "vfs", "or: VFs for the guest as a whole" },
	{ "nvme", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "nvme", "NVMe drives that no driver of the host's has" },
	{ "max-path", 0, "CLASS", STRING, CTL_REQUEST, 0, NULL, "max_path",
	  "farthest GPU-VF path: PIX PXB PHB NODE SYS (default)" },
	{ "max-gpu-path", 0, "CLASS", STRING, CTL_REQUEST, 0, NULL, "max_gpu_path", "farthest GPU-GPU path (default: any)" },
	{ "min-bandwidth", 0, "GBIT", NUMBER, CTL_REQUEST, 0, NULL, "min_bandwidth",
	  "Gb/s from each GPU to its NIC, as links are now" },
	{ "policy", 0, "WORD", STRING, CTL_REQUEST, 0, NULL, "policy",
	  "limits above are strict (default) or loose" },
	{ "spread", 0, "pf", STRING, CTL_REQUEST, 0, NULL, "spread", "no two VFs on one NIC port" },
	{ "rails", 0, NULL, YES, CTL_REQUEST, 0, NULL, "rails", "each GPU's VFs from NICs of its rail" },
	{ "model", 0, "ID", STRING, CTL_REQUEST, 0, NULL, "model", "all GPUs are of this, such as h100 or 10de:2330" },
	{ "models", 0, "ID", LIST, CTL_REQUEST, 0, NULL, "models", "or: one GPU of this; once for each GPU" },
	{ "whole-host", 0, NULL, YES, CTL_REQUEST, 0, NULL, "exclusive", "the whole host: all GPUs, and no other guest" },
	{ "gdr", 0, "WANT", STRING, CTL_REQUEST, 0, NULL, "gdr", "direct NIC-GPU: required preferred (default) off" },
	{ "vcpus", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "vcpus", "vCPUs (default 1)" },
	{ "memory", 0, "SIZE", SIZE, CTL_REQUEST, 0, NULL, "memory", "memory, such as 512M (default) or 4G" },
	{ "hugepages", 0, "SIZE", SIZE, CTL_REQUEST, 0, NULL, "hugepages", "its memory in pages of 2M or 1G" },
	{ "cells", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "cells", "NUMA cells (default: as its devices are)" },
	{ "tenant", 0, "NAME", STRING, CTL_REQUEST, 0, NULL, "tenant", "whose it is" },
	{ "numa-node", 0, "N", INTEGER, CTL_REQUEST, 0, NULL, "numa_node", "all GPUs on this NUMA node" },
	{ "require", 0, "BDF", LIST, CTL_REQUEST, 0, NULL, "require", "a GPU or VF that must be in; repeatable" },
	{ "exclude", 0, "BDF", LIST, CTL_REQUEST, 0, NULL, "exclude", "a device that must not be in; repeatable" },
	{ "vf", 0, "KEY=VALUE,...", SETTINGS, CTL_REQUEST, 0, NULL, "vf",
	  "of its VFs: vlan qos trust spoof_check mac ..." },
	{ "mtu", 0, "N", NUMBER, CTL_REQUEST, 0, NULL, "mtu", "VFs only of ports with this MTU at least" },
	{ "pcie", 0, "SHAPE", STRING, CTL_REQUEST, 0, NULL, "pcie", "switches of the host (default) or root-ports" },
	{ "firmware", 0, "WORD", STRING, CTL_REQUEST, 0, NULL, "firmware", "bios (default) or uefi" },
	{ "secure-boot", 0, NULL, YES, CTL_REQUEST, 0, NULL, "secure_boot", "UEFI with secure boot" },
	{ "tpm", 0, NULL, YES, CTL_REQUEST, 0, NULL, "tpm", "a TPM 2.0 (swtpm)" },
	{ "kernel", 0, "PATH", STRING, CTL_REQUEST, 0, "boot", "kernel", "boot this kernel, a path on the host" },
	{ "initrd", 0, "PATH", STRING, CTL_REQUEST, 0, "boot", "initrd", "with this initial RAM disk" },
	{ "cmdline", 0, "TEXT", STRING, CTL_REQUEST, 0, "boot", "cmdline", "and this kernel command line" },
	{ "disk", 0, "PATH", STRING, CTL_REQUEST, 0, "boot", "disk", "disk image, a path on the host" },
	{ "image", 0, "NAME", STRING, CTL_REQUEST, 0, NULL, "image", "boot a copy of this image (velactl images list)" },
	{ "disk-size", 0, "SIZE", SIZE, CTL_REQUEST, 0, NULL, "disk_size", "as large as this (default: as the image)" },
	{ "data-disk", 0, "SIZE", DISK, CTL_REQUEST, 0, NULL, "disks", "an empty disk more; repeatable" },
	{ "hostname", 0, "NAME", STRING, CTL_REQUEST, 0, NULL, "hostname", "cloud-init: host name (default: NAME)" },
	{ "ssh-keys", 0, "FILE", LINES, CTL_REQUEST, 0, NULL, "ssh_keys", "cloud-init: public keys, such as id_ed25519.pub" },
	{ "user-data", 0, "FILE", CONTENT, CTL_REQUEST, 0, NULL, "user_data", "cloud-init: user-data" },
	{ "network-config", 0, "FILE", JSON, CTL_REQUEST, 0, NULL, "network_config", "cloud-init: network configuration, as JSON" },
	{ "tag", 0, "KEY=VAL", PAIR, CTL_REQUEST | CTL_LIST, 0, NULL, "tags", "a note for people and programs; list: of guests" },
	{ "file", 'f', "FILE", TEXT, CTL_REQUEST, AT(file), NULL, NULL,
	  "the request as JSON, - is stdin; no flags above then" },
	{ "lease", 0, "SEC", SECONDS, CTL_PLAN, AT(lease), NULL, NULL, "hold the devices for so long, at most 300 s" },
	{ "plan", 0, "ID", TEXT, CTL_CREATE, AT(plan), NULL, NULL, "the plan of this lease; beside it only what boots" },
	{ "bundle", 0, "N", COUNT, CTL_CREATE, AT(bundle), NULL, NULL, "which of its bundles (default 0)" },
	{ "no-start", 0, NULL, FLAG, CTL_CREATE, AT(no_start), NULL, NULL, "only keep its devices for it; start NAME starts it" },
	{ "xml", 0, NULL, FLAG, CTL_PLAN, AT(xml), NULL, NULL, "print only the domain XML" },
	{ "nccl", 0, NULL, FLAG, CTL_PLAN, AT(nccl), NULL, NULL, "print only NCCL's topology file for the guest" },
	{ "matrix", 'm', NULL, FLAG, CTL_TOPO, AT(matrix), NULL, NULL, "paths between GPUs, NICs and NVMe drives" },
	{ "all", 'a', NULL, FLAG, CTL_TOPO | CTL_DOCTOR, AT(all), NULL, NULL,
	  "all but VFs; with -m NVSwitches too; every check" },
	{ "unfold", 'u', NULL, FLAG, CTL_TOPO, AT(unfold), NULL, NULL, "each VF in a line or box of its own" },
	{ "numeric", 'n', NULL, FLAG, CTL_NAMES, AT(numeric), NULL, NULL, "vendor and device numbers, no names" },
	{ "vpd", 0, NULL, FLAG, CTL_SHOW, AT(vpd), NULL, NULL, "with part and serial numbers, read by root only" },
	{ "svg", 0, "FILE", TEXT, CTL_TOPO, AT(svg), NULL, NULL, "a picture into FILE, - is standard output" },
	{ "dot", 0, "[FILE]", MAYBE, CTL_TOPO, AT(dot), NULL, NULL, "the same for graphviz's dot" },
	{ "gpu", 0, "BDF", TEXT, CTL_ROUTES, AT(gpu), NULL, NULL, "only this GPU" },
	{ "with", 0, "acs-plan", TEXT, CTL_ROUTES, AT(with), NULL, NULL, "also what the ACS plan would change" },
	{ "explain", 0, NULL, FLAG, CTL_ROUTES | CTL_DOCTOR | CTL_PLAN, AT(explain), NULL, NULL,
	  "why: these devices; FROM TO, by port; ID, a check" },
	{ "exclusive", 0, NULL, FLAG, CTL_ACS, AT(exclusive), NULL, NULL, "also what needs the host to be one tenant's alone" },
	{ "grub", 0, NULL, FLAG, CTL_ACS, AT(grub), NULL, NULL, "only a file for /etc/default/grub.d" },
	{ "force", 0, NULL, FLAG, CTL_STOP | CTL_CONSOLE, AT(force), NULL, NULL,
	  "stop: at once, like the plug; console: take it over" },
	{ "follow", 'f', NULL, FLAG, CTL_LOG, AT(follow), NULL, NULL, "go on, with what it says from now on" },
	{ "lines", 'n', "N", COUNT, CTL_LOG, AT(lines), NULL, NULL, "only the last N lines" },
	{ "escape", 'e', "KEY", TEXT, CTL_CONSOLE, AT(escape), NULL, NULL, "the key that leaves it (default ^])" },
	{ "grace", 0, "SEC", TEXT, CTL_STOP, AT(grace), NULL, NULL, "time to shut down by itself (default: of velad.conf)" },
	{ "state", 0, "WORD", TEXT, CTL_LIST, AT(state), NULL, NULL, "only guests in this state, such as running" },
	{ "dry-run", 0, NULL, FLAG, CTL_DRY, AT(dry_run), NULL, NULL, "only print the writes" },
	{ "anonymize", 0, NULL, FLAG, CTL_DUMP, AT(anonymize), NULL, NULL,
	  "replace serials, addresses, GUIDs, host names" },
	{ "format", 0, "WORD", TEXT, CTL_IMAGE, AT(format), NULL, NULL, "it must be raw or qcow2 (default: what it is)" },
	{ "sha256", 0, "HEX", TEXT, CTL_IMAGE, AT(sha256), NULL, NULL, "it must have this sum" },
	{ "no-wait", 0, NULL, FLAG, CTL_START, AT(no_wait), NULL, NULL, "do not wait for the operation" },
	{ "timeout", 0, "SEC", SECONDS, CTL_WAIT, AT(timeout), NULL, NULL, "stop waiting after this long (default 600)" },
	{ "root", 0, "DIR", TEXT, CTL_READ, AT(root), NULL, NULL, "read the machine below DIR, / is this one; no velad" },
	{ "host", 0, "FILE", TEXT, CTL_READ, AT(host), NULL, NULL, "read a text host (velactl dump); no velad" },
	{ "qemu", 0, "X.Y.Z", RELEASE, CTL_PLAN | CTL_DOCTOR, AT(qemu), NULL, NULL, "with --host or --root: the QEMU there" },
	{ "output", 'o', "json|text", FORMAT, CTL_GLOBAL, AT(json), NULL, NULL, "json: the document as velad has it" },
	{ "conf", 0, "FILE", TEXT, CTL_GLOBAL, AT(conf), NULL, NULL, "velad.conf to use" },
	{ "socket", 0, "PATH", TEXT, CTL_GLOBAL, AT(socket), NULL, NULL, "velad's socket (default: from velad.conf)" },
	{ "help", 'h', NULL, FLAG, CTL_GLOBAL, AT(help), NULL, NULL, "help, for the verb if there is one" },
	{ "version", 'V', NULL, FLAG, CTL_GLOBAL, AT(version), NULL, NULL, "the version" },
};
_Static_assert(ARRAY_SIZE(options) <= 128, "struct ctl_args.seen has 128 bits");

unsigned ctl_distance(const char *a, const char *b)
{
	unsigned row[33], n = (unsigned)strlen(b);

	if (strlen(a) > 32 || n > 32)
		return UINT32_MAX;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; *a; a++, i++) { /* Levenshtein, one row at a time */
		unsigned corner = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned best = corner + (*a != b[j - 1]);

			best = row[j] + 1 < best ? row[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			corner = row[j];
			row[j] = best;
		}
	}
	return row[n];
}

static int read_release(uint64_t *ret, const char *text, const char *name, struct error *err)
{
	unsigned major, minor, release = 0;
	int n = -1;

	if ((sscanf(text, "%u.%u%n", &major, &minor, &n) < 2 || text[n] != '\0') &&
	    (sscanf(text, "%u.%u.%u%n", &major, &minor, &release, &n) < 3 || text[n] != '\0'))
		n = -1;
	if (n < 0 || major > 999 || minor > 999 || release > 999)
		return error_set(err, -EINVAL, "--%s: \"%.40s\" is no version; say 10.0.2", name, text);
	*ret = major * 1000000 + minor * 1000 + release;
	return 0;
}

static json_object *request_member(struct ctl_args *a, const char *parent)
{
	json_object *o;

	if (!a->request)
		a->request = json_object_new_object();
	if (!parent || json_object_object_get_ex(a->request, parent, &o))
		return parent ? o : a->request;
	o = json_object_new_object();
	if (json_object_object_add(a->request, parent, o) < 0) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

static bool is_list(const struct option *o)
{
	return o->kind == LIST || o->kind == LINES || o->kind == DISK;
}

static int request_add(struct ctl_args *a, const struct option *o, json_object *value, struct error *err)
{
	json_object *to = request_member(a, o->parent), *list;
	int r = -1;

	if (to && value && is_list(o) && json_object_object_get_ex(to, o->key, &list)) {
		r = json_object_array_add(list, value);
	} else if (to && value && is_list(o)) {
		list = json_object_new_array();
		r = list ? json_object_object_add(to, o->key, list) : -1;
		r = r < 0 ? r : json_object_array_add(list, value);
	} else if (to && value) {
		r = json_object_object_add(to, o->key, value);
	}
	return r < 0 ? error_set(err, -ENOMEM, "no memory for --%s", o->name) : 0;
}

static int request_number(struct ctl_args *a, const struct option *o, const char *text, struct error *err)
{
	uint64_t u = 0;
	int64_t i = 0;

	if ((o->kind == SIZE || o->kind == DISK) && parse_size(&u, text) < 0)
		return error_set(err, -EINVAL, "--%s: \"%.40s\" is not a size; say 512M or 4G", o->name, text);
	if (o->kind == NUMBER && parse_uint(&u, text, 10, INT64_MAX) < 0)
		return error_set(err, -EINVAL, "--%s: \"%.40s\" is not a whole number", o->name, text);
	if (o->kind == INTEGER) {
		if (parse_int(&i, text, INT64_MIN + 1, INT64_MAX) < 0)
			return error_set(err, -EINVAL, "--%s: \"%.40s\" is not a whole number", o->name, text);
		return request_add(a, o, json_object_new_int64(i), err);
	}
	if (o->kind == DISK) {
		struct json_out disk = json_out_new();

		json_add_uint(&disk, "size", u);
		return request_add(a, o, json_finish(&disk), err);
	}
	return request_add(a, o, json_object_new_uint64(u), err);
}

static int request_settings(struct ctl_args *a, const struct option *o, const char *text, struct error *err)
{
	struct plan_vf_settings s;

	if (plan_vf_parse(&s, text, err) < 0)
		return error_prefix(err, "--%s", o->name);
	return request_add(a, o, plan_vf_json(&s), err);
}

/* Lines but blank ones and comments. */
static int add_lines(struct ctl_args *a, const struct option *o, char *text, struct error *err)
{
	char *rest = text, *line;
	int r = 0;

	while (r == 0 && (line = strsep(&rest, "\r\n")))
		if (*line && *line != '#')
			r = request_add(a, o, json_object_new_string(line), err);
	return r;
}

static int request_file(struct ctl_args *a, const struct option *o, const char *path, struct error *err)
{
	autofree char *text = NULL;
	json_object *doc = NULL;
	size_t len = 0;
	int r = file_read(&text, &len, path, JSON_BYTES_MAX);

	if (r == 0 && strlen(text) != len)
		r = -EILSEQ;
	if (r < 0) /* not the file's errno: exit status 3 is for what velad does not have */
		return error_set(err, -EIO, "--%s: cannot read %s: %s", o->name, path, r == -EILSEQ ? "it is no text" : strerror(-r));
	if (o->kind == LINES)
		return add_lines(a, o, text, err);
	if (o->kind == CONTENT)
		return request_add(a, o, json_object_new_string(text), err);
	r = json_parse(&doc, text, len, JSON_BYTES_MAX, err);
	return r < 0 ? error_prefix(err, "--%s %s", o->name, path) : request_add(a, o, doc, err);
}

static int request_pair(struct ctl_args *a, const struct option *o, const char *text, struct error *err)
{
	size_t n = strcspn(text, "=");
	json_object *to, *pairs = NULL, *value = json_object_new_string(text[n] ? text + n + 1 : "");
	char key[64];

	if (!text[n] || n == 0 || n >= sizeof(key)) {
		json_object_put(value);
		return error_set(err, -EINVAL, "--%s: \"%.60s\" is no %s", o->name, text, o->value);
	}
	(void)snprintf(key, sizeof(key), "%.*s", (int)n, text);
	to = request_member(a, NULL);
	if (to && !json_object_object_get_ex(to, o->key, &pairs)) {
		pairs = json_object_new_object();
		if (json_object_object_add(to, o->key, pairs) < 0)
			pairs = NULL;
	}
	return pairs && json_object_object_add(pairs, key, value) == 0 ? 0 : error_set(err, -ENOMEM, "no memory for --%s", o->name);
}

static int set(struct ctl_args *a, const struct option *o, const char *text, struct error *err)
{
	void *at = (char *)a + o->offset;

	switch (o->kind) {
	case FLAG:
		*(bool *)at = true;
		return 0;
	case TEXT:
		if (!*text)
			return error_set(err, -EINVAL, "--%s needs a %s, it is empty", o->name, o->value);
		*(const char **)at = text;
		return 0;
	case MAYBE:
		*(const char **)at = text;
		return 0;
	case SECONDS:
	case COUNT:
		if (parse_uint(at, text, 10, UINT32_MAX) < 0)
			return error_set(err, -EINVAL, "--%s: \"%.40s\" is not a number%s", o->name, text,
					 o->kind == SECONDS ? " of seconds" : "");
		return 0;
	case RELEASE:
		return read_release(at, text, o->name, err);
	case FORMAT:
		if (strcmp(text, "json") != 0 && strcmp(text, "text") != 0)
			return error_set(err, -EINVAL, "--output: \"%.40s\" is no format; say json or text", text);
		*(bool *)at = *text == 'j';
		return 0;
	case NUMBER:
	case INTEGER:
	case SIZE:
	case DISK:
		return request_number(a, o, text, err);
	case SETTINGS:
		return request_settings(a, o, text, err);
	case YES:
		return request_add(a, o, json_object_new_boolean(true), err);
	case CONTENT:
	case LINES:
	case JSON:
		return request_file(a, o, text, err);
	case PAIR:
		return request_pair(a, o, text, err);
	case STRING:
	case LIST:
		break;
	}
	return request_add(a, o, json_object_new_string(text), err);
}

static const struct option *find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (strncmp(options[i].name, name, len) == 0 && !options[i].name[len])
			return &options[i];
	return NULL;
}

/* Behind the verb log, its own go before others of the same letter. */
static const struct option *find_letter(const struct ctl_args *a, char letter)
{
	bool guests = a->nwords > 1 && strcmp(a->word[0], "instance") == 0;
	bool is_log = a->nwords && strcmp(a->word[guests], "log") == 0;
	const struct option *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (options[i].letter == letter && (!found || (options[i].group == CTL_LOG) == is_log))
			found = &options[i];
	return found;
}

static int unknown(const char *name, size_t len, struct error *err)
{
	const struct option *near = NULL;
	unsigned best = len > 4 ? 3 : 2; /* more changes than this and it is another word */
	char text[40];

	(void)snprintf(text, sizeof(text), "%.*s", (int)len, name);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		unsigned d = ctl_distance(text, options[i].name);

		if (d < best) {
			best = d;
			near = &options[i];
		}
	}
	return near ? error_set(err, -EINVAL, "unknown option --%s; did you mean --%s?", text, near->name)
		    : error_set(err, -EINVAL, "unknown option --%s; see velactl help", text);
}

/* One option at argv[*i]; *i moves when the next word is its value. */
static int option_at(struct ctl_args *a, int argc, char *const *argv, int *i, struct error *err)
{
	const char *text = argv[*i], *value;
	bool is_long = text[1] == '-';
	size_t len = is_long ? strcspn(text + 2, "=") : 1;
	const struct option *o = is_long ? find(text + 2, len) : find_letter(a, text[1]);

	if (!o)
		return is_long ? unknown(text + 2, len, err)
			       : error_set(err, -EINVAL, "unknown option -%c; see velactl help", text[1]);
	a->seen[(o - options) / 64] |= UINT64_C(1) << (o - options) % 64;
	value = text + (is_long ? 2 + len : 2);
	if (!o->value) {
		if (*value)
			return error_set(err, -EINVAL, "--%s takes no value, \"%.40s\" follows it", o->name, value);
		return set(a, o, NULL, err);
	}
	if (is_long && *value == '=')
		value++;
	else if (o->kind == MAYBE)
		value = "";
	else if (!*value && *i + 1 < argc)
		value = argv[++*i];
	else if (!*value)
		return error_set(err, -EINVAL, "--%s needs a value: --%s %s", o->name, o->name, o->value);
	return set(a, o, value, err);
}

int ctl_args_parse(struct ctl_args *ret, int argc, char *const *argv, struct error *err)
{
	struct ctl_args a = { .timeout = CTL_TIMEOUT_DEFAULT };
	bool options_end = false;
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++) {
		if (!options_end && strcmp(argv[i], "--") == 0)
			options_end = true;
		else if (!options_end && argv[i][0] == '-' && argv[i][1])
			r = option_at(&a, argc, argv, &i, err);
		else if (a.nwords < CTL_WORDS_MAX)
			a.word[a.nwords++] = argv[i];
		else
			r = error_set(err, -EINVAL, "too many words, at \"%.40s\"", argv[i]);
	}
	if (r == 0 && a.root && a.host)
		r = error_set(err, -EINVAL, "--root and --host are two hosts; say one of them");
	if (r < 0) {
		ctl_args_done(&a);
		return r;
	}
	*ret = a;
	return 0;
}

void ctl_args_done(struct ctl_args *a)
{
	json_object_put(a->request);
	a->request = NULL;
}

int ctl_args_check(const struct ctl_args *a, const char *verb, unsigned groups, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!(a->seen[i / 64] >> i % 64 & 1) || options[i].group & (groups | CTL_GLOBAL))
			continue;
		if (options[i].group == CTL_READ)
			return error_set(err, -EINVAL, "%s asks velad and cannot work with --%s", verb, options[i].name);
		return error_set(err, -EINVAL, "%s has no option --%s; see velactl help %s", verb, options[i].name, verb);
	}
	return 0;
}

void ctl_args_help(struct sbuf *out, unsigned groups)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i];
		char left[40];

		if (!(o->group & groups))
			continue;
		(void)snprintf(left, sizeof(left), "%c%c%s--%s %s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
			       o->letter ? ", " : "  ", o->name, o->value ? o->value : "");
		sbuf_addf(out, "  %-25s %s\n", left, o->help);
	}
}

const char *ctl_args_flag(const char *text, size_t *keylen)
{
	static const char *const before[] = { "request.boot.", "boot.", "request." };

	for (size_t b = 0; b < ARRAY_SIZE(before); b++) {
		size_t skip = strlen(before[b]), len;

		if (strncmp(text, before[b], skip) != 0)
			continue;
		len = strspn(text + skip, "abcdefghijklmnopqrstuvwxyz_");
		for (size_t i = 0; i < ARRAY_SIZE(options); i++)
			if (options[i].key && strncmp(options[i].key, text + skip, len) == 0 && !options[i].key[len]) {
				*keylen = skip + len;
				return options[i].name;
			}
	}
	return NULL;
}
