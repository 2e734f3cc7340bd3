/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* velactl/exits — the exit statuses (velactl(1)), from errors and from the codes of problem documents. */

enum ctl_exit {
	CTL_OK,
	CTL_FAILED,
	CTL_USAGE,
	CTL_NOT_FOUND,
	CTL_CONFLICT,
	CTL_NO_CAPACITY,
	CTL_UNREACHABLE = 7,
	CTL_TIMEOUT,
	CTL_CHECK_FAILED = 100, /* velactl doctor: a check of severity error failed */
	CTL_CHECK_UNKNOWN,      /* none did, but one could not be told */
};

enum ctl_exit ctl_exit_of(int error);         /* a negative errno */
int           ctl_exit_errno(const char *code); /* "no_capacity" -> -ENOSPC; -EPROTO for an unknown one */
