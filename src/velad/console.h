/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/console — what the API says of guests' serial consoles: the console itself, and its log. */

#include "api/method.h"

#define CONSOLE_PROTOCOL "velad-console"

struct manager;

int  console_get(void *self, const struct api_request *req, struct api_response *res, struct error *err);
void console_upgraded(void *self, const struct api_request *req, int fd);
int  console_get_log(void *self, const struct api_request *req, struct api_response *res, struct error *err);
