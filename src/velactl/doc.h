/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/doc — members of a document whose sender may be older, newer or broken: what is missing or of
 * another type reads as nothing. */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

json_object *ctl_doc_get(json_object *o, const char *key);  /* borrowed; NULL: none, or null */
json_object *ctl_doc_list(json_object *o, const char *key); /* borrowed array; NULL: none */
const char  *ctl_doc_text(json_object *o, const char *key); /* "" if it is none */
const char  *ctl_doc_driver(json_object *node);             /* "" none, "?" where the document leaves it out: unknown */
int64_t      ctl_doc_int(json_object *o, const char *key, int64_t none);
bool         ctl_doc_bool(json_object *o, const char *key);
bool         ctl_doc_no(json_object *o, const char *key);   /* it is there, and false */
size_t       ctl_doc_count(json_object *array);             /* 0 for NULL */
