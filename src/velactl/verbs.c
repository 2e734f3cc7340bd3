/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verb table: dispatcher and help text at once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "velactl/ctl.h"

const struct ctl_verb ctl_verbs[] = {
	{ "topo", "[--all] [-m | --svg FILE | --dot [FILE]]", CTL_READ | CTL_TOPO | CTL_NAMES, 0, 1, ctl_topo,
	  "GPUs, NICs and switches: a tree, a matrix, a picture" },
	{ "path", "FROM TO", CTL_READ | CTL_NAMES, 2, 2, ctl_path,
	  "the way between two functions, hop by hop" },
	{ "routes", "[--gpu BDF] [--with acs-plan] | FROM TO", CTL_READ | CTL_ROUTES, 0, 2, ctl_routes,
	  "where DMA goes: direct, or through the root complex" },
	{ "doctor", "[--all] [--explain ID]", CTL_READ | CTL_DOCTOR, 0, 1, ctl_doctor, "what is wrong with this host, and the fix" },
	{ "host", "", CTL_READ, 0, 0, ctl_host, "the machine in short" },
	{ "watch", "", CTL_READ, 0, 0, ctl_watch, "changes of the machine as they happen, a line each" },
	{ "dump", "[FILE] [--anonymize]", CTL_READ | CTL_DUMP, 0, 1, ctl_dump, "all that velad reads of this machine, as a text host" },
	{ "acs show", "", CTL_READ, 0, 0, ctl_acs_show, "the ACS bits of every port" },
	{ "acs plan", "[--exclusive] [--grub]", CTL_READ | CTL_ACS, 0, 0, ctl_acs_plan,
	  "the fewest ACS writes for direct GPUDirect RDMA" },
	{ "acs apply", "[--dry-run]", CTL_DRY | CTL_START | CTL_WAIT, 0, 0, ctl_acs_apply, "write the ACS plan, and keep it so" },
	{ "acs restore", "[--dry-run]", CTL_DRY | CTL_START | CTL_WAIT, 0, 0, ctl_acs_restore, "give back what acs apply wrote" },
	{ "pool show", "", 0, 0, 0, ctl_pool_show, "VFs and devices that velad made ready at its start" },
	{ "pool plan", "", CTL_READ, 0, 0, ctl_pool_plan, "every step to the pool of velad.conf" },
	{ "pool apply", "[--dry-run]", CTL_DRY | CTL_START | CTL_WAIT, 0, 0, ctl_pool_apply, "make the pool now" },
	{ "pool release", "[--dry-run]", CTL_DRY | CTL_START | CTL_WAIT, 0, 0, ctl_pool_release, "give back what no guest has" },
	{ "quarantine list", "", 0, 0, 0, ctl_quarantine_list, "functions that are not given to anybody, and why" },
	{ "quarantine add", "BDF REASON", 0, 2, 2, ctl_quarantine_add, "keep a function from guests" },
	{ "quarantine release", "BDF", CTL_START | CTL_WAIT, 1, 1, ctl_quarantine_release, "verify a function, and let guests have it again" },
	{ "plan", "[NAME] [FLAGS | --file FILE] [--lease SEC] [--xml | --nccl]", CTL_READ | CTL_PLAN | CTL_REQUEST, 0, 1, ctl_plan,
	  "what a guest would get, every step; changes nothing" },
	{ "leases", "", 0, 0, 0, ctl_leases, "plans that hold their devices for a while" },
	{ "release", "ID", 0, 1, 1, ctl_release, "give the devices of a lease back" },
	{ "capacity", "", CTL_READ, 0, 0, ctl_capacity, "how many bundles still fit, and what blocks more" },
	{ "create", "NAME [FLAGS | --file FILE | --plan ID]", CTL_GUEST | CTL_REQUEST | CTL_CREATE | CTL_START | CTL_WAIT, 0, 1, ctl_create,
	  "make a guest and start it" },
	{ "list", "[--state WORD] [--tag KEY=VAL]", CTL_GUEST | CTL_LIST, 0, 0, ctl_list, "all guests, or some" },
	{ "show", "NAME | BDF [--vpd]", CTL_GUEST | CTL_READ | CTL_NAMES | CTL_SHOW, 1, 1, ctl_show,
	  "one guest, or all of one PCI function" },
	{ "nccl-topology", "NAME", CTL_GUEST, 1, 1, ctl_nccl, "the topology file for NCCL in a guest" },
	{ "rank-map", "NAME", CTL_GUEST, 1, 1, ctl_rank_map, "which GPU and VF of the host is which of a guest" },
	{ "start", "NAME", CTL_GUEST | CTL_START | CTL_WAIT, 1, 1, ctl_start, "start a guest that is stopped" },
	{ "stop", "NAME [--grace SEC | --force]", CTL_GUEST | CTL_STOP | CTL_START | CTL_WAIT, 1, 1, ctl_stop, "shut a guest down; it keeps its devices" },
	{ "console", "NAME [--force]", CTL_GUEST | CTL_CONSOLE, 1, 1, ctl_console, "a guest's serial console; ^] leaves it" },
	{ "log", "NAME [-n LINES] [-f]", CTL_GUEST | CTL_LOG, 1, 1, ctl_log, "what a guest's console said, over all its starts" },
	{ "reboot", "NAME", CTL_GUEST | CTL_START | CTL_WAIT, 1, 1, ctl_reboot, "reboot a guest" },
	{ "reset", "NAME", CTL_GUEST | CTL_START | CTL_WAIT, 1, 1, ctl_reset, "press a guest's reset button" },
	{ "delete", "NAME", CTL_GUEST | CTL_START | CTL_WAIT, 1, 1, ctl_delete, "stop a guest and give its devices back" },
	{ "images add", "NAME FILE [--format WORD] [--sha256 HEX]", CTL_IMAGE | CTL_START | CTL_WAIT, 2, 2, ctl_images_add,
	  "take FILE as an image; it lies where new images do" },
	{ "images list", "", 0, 0, 0, ctl_images_list, "what guests can boot" },
	{ "images show", "NAME", 0, 1, 1, ctl_images_show, "one image" },
	{ "images delete", "NAME", CTL_START | CTL_WAIT, 1, 1, ctl_images_delete, "delete an image that no guest uses" },
	{ "op list", "[GUEST]", 0, 0, 1, ctl_op_list, "the newest operations" },
	{ "op show", "ID", 0, 1, 1, ctl_op_show, "how an operation goes" },
	{ "op wait", "ID", CTL_WAIT, 1, 1, ctl_op_wait, "wait for an operation" },
	{ "op cancel", "ID", CTL_START | CTL_WAIT, 1, 1, ctl_op_cancel, "have what an operation did undone" },
	{ "help", "[VERB]", 0, 0, 2, ctl_help, "this text, or that of one verb" },
	{ 0 },
};

#define INSTANCE "instance"

static const struct ctl_verb *find_exact(const char *const *word, size_t n, size_t *words)
{
	for (const struct ctl_verb *v = ctl_verbs; v->name; v++) {
		const char *space = strchr(v->name, ' ');
		size_t first = space ? (size_t)(space - v->name) : strlen(v->name);

		*words = space ? 2 : 1;
		if (n >= *words && strlen(word[0]) == first && strncmp(word[0], v->name, first) == 0 &&
		    (!space || strcmp(word[1], space + 1) == 0))
			return v;
	}
	return NULL;
}

/* "op" is no verb, but the beginning of some; so is "instance", of those of instances, which go without it, too. */
static bool begins(const char *word, char *all, size_t size)
{
	bool guests = strcmp(word, INSTANCE) == 0;
	size_t len = strlen(word), n = 0;

	*all = '\0';
	for (const struct ctl_verb *v = ctl_verbs; v->name; v++)
		if ((guests ? v->options & CTL_GUEST : strncmp(v->name, word, len) == 0 && v->name[len] == ' ') && n < size)
			n += (size_t)snprintf(all + n, size - n, "%s%s", n ? " or " : "", v->name);
	return n > 0;
}

const struct ctl_verb *ctl_verb_find(const struct ctl_args *a, size_t *words, struct error *err)
{
	bool guests = a->nwords > 1 && strcmp(a->word[0], INSTANCE) == 0;
	const struct ctl_verb *v = a->nwords ? find_exact(a->word + guests, a->nwords - guests, words) : NULL;
	const char *near = NULL;
	unsigned best = 3;
	char all[160];

	if (v && (!guests || v->options & CTL_GUEST)) {
		*words += guests;
		return v;
	}
	if (!a->nwords) {
		(void)error_set(err, -EINVAL, "which verb? see velactl help");
		return NULL;
	}
	if (begins(a->word[0], all, sizeof(all))) {
		(void)error_set(err, -EINVAL, "%s what? say %s", a->word[0], all);
		return NULL;
	}
	for (v = ctl_verbs; v->name; v++) {
		unsigned d = ctl_distance(a->word[0], v->name);

		if (d < best && d * 2 <= strlen(a->word[0])) {
			best = d;
			near = v->name;
		}
	}
	(void)error_set(err, -EINVAL, "unknown verb \"%.40s\"; %s%s%ssee velactl help", a->word[0],
			near ? "did you mean " : "", near ? near : "", near ? "? " : "");
	return NULL;
}

/* The parts of the list, by the first verb of each. */
static const struct {
	const char *verb, *title;
} parts[] = {
	{ "topo", "the machine" }, { "acs show", "what velad keeps ready on it" }, { "plan", "placement" },
	{ "create", "guests" }, { "images add", "images" }, { "op list", "operations" }, { "help", "help" },
};

/* What has to be said with a verb: its usage up to what may be left out. */
static int needed(const struct ctl_verb *v)
{
	size_t len = strcspn(v->usage, "[|");

	return (int)(len && v->usage[len] ? len - 1 : len);
}

void ctl_usage(struct ctl_out *out)
{
	sbuf_add(&out->text, "usage: velactl [OPTIONS] VERB [ARGUMENTS]\n");
	for (const struct ctl_verb *v = ctl_verbs; v->name; v++) {
		char left[40];

		for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
			if (strcmp(v->name, parts[i].verb) == 0)
				sbuf_addf(&out->text, "\n%s:\n", parts[i].title);
		(void)snprintf(left, sizeof(left), "%s %.*s", v->name, needed(v), v->usage);
		sbuf_addf(&out->text, "  %-25s %s\n", left, v->help);
	}
	sbuf_add(&out->text, "\noptions of all verbs:\n");
	ctl_args_help(&out->text, CTL_GLOBAL);
	sbuf_add(&out->text, "\ntopo, path, routes, acs, pool plan, doctor, show BDF, plan, capacity, host,\nwatch, dump:\n");
	ctl_args_help(&out->text, CTL_READ);
	sbuf_add(&out->text, "\nvelactl help VERB has its other options; velactl(1) examples and exit statuses.\n");
}

void ctl_verb_help(struct ctl_out *out, const struct ctl_verb *v)
{
	sbuf_addf(&out->text, "usage: velactl %s%s%s\n\n%s\n", v->name, *v->usage ? " " : "", v->usage, v->help);
	if (v->options & ~CTL_GUEST) {
		sbuf_add(&out->text, "\n");
		ctl_args_help(&out->text, v->options);
	}
	sbuf_add(&out->text, "\noptions of all verbs:\n");
	ctl_args_help(&out->text, CTL_GLOBAL);
}

enum ctl_exit ctl_help(struct ctl *c, char const *const *arg, size_t n)
{
	struct ctl_args asked = { .nwords = n };
	const struct ctl_verb *v;
	struct error err;
	size_t words;

	if (!n) {
		ctl_usage(&c->out);
		return CTL_OK;
	}
	for (size_t i = 0; i < n; i++)
		asked.word[i] = arg[i];
	v = ctl_verb_find(&asked, &words, &err);
	if (!v)
		return ctl_fail(c, &err);
	ctl_verb_help(&c->out, v);
	return CTL_OK;
}
