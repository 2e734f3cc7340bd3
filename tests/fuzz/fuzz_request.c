/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A request body from anywhere: refused with a sentence, or a request that reads back the same. */
#include <assert.h>
#include <json-c/json.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct plan_request r, again;
	json_object *o = NULL, *back;

	if (json_parse(&o, (const char *)data, size, JSON_BYTES_MAX, &err) < 0) {
		assert(err.code < 0 && *err.text);
		return 0;
	}
	if (plan_request_read(&r, o, &err) < 0) {
		assert(err.code < 0 && *err.text);
	} else {
		back = plan_request_json(&r);
		err = ERROR_INIT;
		assert(plan_request_read(&again, back, &err) == 0);
		assert(again.gpus == r.gpus && again.memory == r.memory && strcmp(again.cmdline, r.cmdline) == 0);
		json_object_put(back);
		plan_request_done(&again);
		plan_request_done(&r);
	}
	json_object_put(o);
	return 0;
}
