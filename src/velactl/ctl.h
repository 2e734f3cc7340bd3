/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/ctl — what one run of the tool has, and the verbs. A verb returns the exit status; it has reported
 * its own errors with ctl_fail(). */

#include "base/bdf.h"
#include "base/conf.h"
#include "base/error.h"
#include "velactl/args.h"
#include "velactl/exits.h"
#include "velactl/out.h"

struct json_object;

struct ctl {
	struct ctl_args     args;
	struct ctl_out      out;
	struct conf         conf;   /* once ctl_conf() read it */
	bool                have_conf;
	struct json_object *problem; /* owned; the problem document of the last call that failed */
};

struct ctl_verb {
	const char *name;  /* "topo", "op show" */
	const char *usage; /* its arguments */
	unsigned    options; /* groups of velactl/args.h */
	size_t      least, most; /* arguments */
	enum ctl_exit (*run)(struct ctl *c, char const *const *arg, size_t n);
	const char *help;
};

extern const struct ctl_verb ctl_verbs[]; /* name NULL ends it */

/* The verb of args.word, how many words its name has; NULL with -EINVAL in err. */
const struct ctl_verb *ctl_verb_find(const struct ctl_args *a, size_t *words, struct error *err);
void ctl_usage(struct ctl_out *out);                                /* all verbs */
void ctl_verb_help(struct ctl_out *out, const struct ctl_verb *v);

/* Arguments of main() to exit status; writes nothing to standard output. */
enum ctl_exit ctl_run(struct ctl *c, int argc, char *const *argv);
void          ctl_done(struct ctl *c); /* all but out */

/* One line on standard error: "velactl: TEXT"; in text mode the reasons below it, with -o json the problem
 * document on standard output. */
enum ctl_exit ctl_fail(struct ctl *c, const struct error *err);
int ctl_conf(struct ctl *c, struct error *err); /* reads it once */
/* One line of watch; when: "12:34:56". */
void ctl_change_line(struct ctl_out *out, const char *when, int64_t generation, struct json_object *item);
/* A document as text by write or as JSON; the latter gets it first: GET path. */
enum ctl_exit ctl_write_doc(struct ctl *c, struct json_object *doc, int (*write)(struct ctl_out *, struct json_object *, struct error *));
enum ctl_exit ctl_show_doc(struct ctl *c, const char *path, int (*write)(struct ctl_out *, struct json_object *, struct error *));
void ctl_findings_write(struct ctl_out *out, struct json_object *doc); /* "! ID COMPONENT: TEXT" lines */

enum ctl_exit ctl_topo(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_path(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_routes(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_acs_show(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_acs_apply(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_acs_restore(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_acs_plan(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_pool_show(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_pool_plan(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_pool_apply(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_pool_release(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_nccl(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_rank_map(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_doctor(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_capacity(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_plan(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_create(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_list(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_show(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_show_function(struct ctl *c, struct bdf bdf);
enum ctl_exit ctl_delete(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_op_list(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_op_cancel(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_start(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_console(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_log(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_stop(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_reboot(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_reset(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_op_show(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_op_wait(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_images_add(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_images_list(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_images_show(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_images_delete(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_leases(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_release(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_quarantine_list(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_quarantine_add(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_quarantine_release(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_dump(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_watch(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_host(struct ctl *c, char const *const *arg, size_t n);
enum ctl_exit ctl_help(struct ctl *c, char const *const *arg, size_t n);
/* src/velactl/cmd_instance.c: "/v1/instances/NAME", if that can be a name. -EINVAL. */
int ctl_instance_path(char path[96], const char *name, struct error *err);
