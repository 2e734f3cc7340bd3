/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A text host from anywhere. If it is one: its text comes back the same; a dump of it is the same host, and the
 * dump of the dump the same text; without its secrets it is still a text host. */
#include <assert.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "host/dump.h"
#include "host/inventory.h"
#include "host/text.h"
#include "topo/topo.h"

static struct host_kinds kinds;

static struct text_host *must_parse(const char *text)
{
	struct error err = ERROR_INIT;
	struct text_host *t = NULL;

	assert(text && text_host_parse(&t, text, strlen(text), "fuzz", &err) == 0);
	return t;
}

static void text_comes_back(struct text_host *t)
{
	char *once = text_host_render(t), *twice;
	struct anonymize_counts n;
	struct text_host *back = must_parse(once);

	twice = text_host_render(back);
	assert(twice && strcmp(once, twice) == 0);
	assert(anonymize(back, &n) == 0);
	free(once);
	once = text_host_render(back);
	text_host_free(must_parse(once));
	text_host_free(back);
	free(once);
	free(twice);
}

/* NULL: it has no PCI bus. */
static char *documents(struct host_root *root)
{
	struct error err = ERROR_INIT;
	struct inventory *inv = NULL;
	json_object *topo, *host;
	struct topo *t = NULL;
	char *text = NULL;

	if (host_inventory_read(&inv, root, &kinds, &err) < 0)
		return NULL;
	if (topo_build(&t, inv, 1, &err) < 0) {
		host_inventory_free(inv);
		return NULL;
	}
	topo = topo_json(t);
	host = topo_host_json(t);
	json_object_object_del(host, "cost");
	assert(asprintf(&text, "%s%s", json_object_to_json_string(topo), json_object_to_json_string(host)) > 0);
	json_object_put(topo);
	json_object_put(host);
	topo_unref(t);
	return text;
}

static void dump_is_the_host(struct host_root *root)
{
	char *was = documents(root), *is, *first = NULL, *second = NULL;
	struct host_root *back = NULL;
	struct error err = ERROR_INIT;

	if (!was)
		return;
	assert(host_dump(&first, root, &kinds, NULL, &err) == 0);
	assert(host_root_parse_text(&back, first, strlen(first), "dump", &err) == 0);
	is = documents(back);
	assert(is && strcmp(was, is) == 0);
	assert(host_dump(&second, back, &kinds, NULL, &err) == 0 && strcmp(first, second) == 0);
	host_root_close(back);
	free(was);
	free(is);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct host_root *root = NULL;
	struct text_host *t = NULL;

	if (!kinds.n)
		(void)host_kinds_add(&kinds, "gpu", "10de:*:0302", &err);
	if (text_host_parse(&t, (const char *)data, size, "fuzz", &err) < 0) {
		assert(err.code < 0 && *err.text);
		return 0;
	}
	text_comes_back(t);
	text_host_free(t);
	assert(host_root_parse_text(&root, (const char *)data, size, "fuzz", &err) == 0);
	dump_is_the_host(root);
	host_root_close(root);
	return 0;
}
