/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "velactl/doc.h"

json_object *ctl_doc_get(json_object *o, const char *key)
{
	json_object *v = NULL;

	if (json_object_is_type(o, json_type_object))
		(void)json_object_object_get_ex(o, key, &v);
	return v;
}

json_object *ctl_doc_list(json_object *o, const char *key)
{
	json_object *v = ctl_doc_get(o, key);

	return json_object_is_type(v, json_type_array) ? v : NULL;
}

const char *ctl_doc_text(json_object *o, const char *key)
{
	json_object *v = ctl_doc_get(o, key);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

const char *ctl_doc_driver(json_object *node)
{
	return json_object_object_get_ex(node, "driver", NULL) ? ctl_doc_text(node, "driver") : "?";
}

int64_t ctl_doc_int(json_object *o, const char *key, int64_t none)
{
	json_object *v = ctl_doc_get(o, key);

	return json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : none;
}

bool ctl_doc_bool(json_object *o, const char *key)
{
	json_object *v = ctl_doc_get(o, key);

	return json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

bool ctl_doc_no(json_object *o, const char *key)
{
	json_object *v = ctl_doc_get(o, key);

	return json_object_is_type(v, json_type_boolean) && !json_object_get_boolean(v);
}

size_t ctl_doc_count(json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}
