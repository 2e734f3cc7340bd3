/* SPDX-License-Identifier: GPL-2.0-or-later */
/* velactl — the hand tool of velad. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "velactl/ctl.h"

/* A closed standard descriptor would be reused by the next open or socket, and our output would go there. */
static void fill_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY); /* writing to it fails, as it should */
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

int main(int argc, char **argv)
{
	struct ctl c = { 0 };
	enum ctl_exit status;
	int e;

	fill_standard_fds();
	(void)setlocale(LC_CTYPE, ""); /* libsmartcols draws trees with what the terminal can show */
	(void)signal(SIGPIPE, SIG_IGN);
	ctl_out_init(&c.out);
	status = ctl_run(&c, argc, argv);
	ctl_done(&c);
	e = ctl_out_done(&c.out);
	if (e && e != EPIPE) /* whoever closed the pipe has seen enough */
		(void)fprintf(stderr, "velactl: cannot write the output: %s\n", strerror(e));
	return e && status == CTL_OK ? CTL_FAILED : (int)status;
}
