/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velad/methods — the API's handlers: the only place where HTTP and the domain meet. */

#include "api/method.h"

/* Ended by method NULL; self of each handler is a struct manager. */
extern const struct api_route velad_routes[];
