/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* history — random histories: what happens in each of them, from its seed, and its text. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LIVES   4
#define ACTIONS 8

enum action_kind { CREATE, DELETE, WAIT, ORDER, FAIL, FAIL_ON, WORK_AGAIN, POWER_OFF, FORGET, PULL, PLUG, RELEASE, RESET, SICK, WELL, KEYED, KINDS };
enum life_end { CLEAN, CRASH_AT_CALL, KILLED_AT_WRITE, POWER_LOST, ENDS };

struct action {
	enum action_kind kind;
	unsigned         x;
	bool             out; /* left out, while a shorter history is looked for */
};

struct life {
	struct action action[ACTIONS];
	enum life_end end;
	unsigned      at;
	bool          out;
};

struct history {
	uint32_t    seed;
	bool        bare; /* there is no store at first */
	struct life life[LIVES];
};

static inline uint32_t draw(uint32_t *x, uint32_t below)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return (*x >> 3) % below;
}

static inline void history_make(struct history *h, uint32_t seed, bool bare)
{
	uint32_t x = seed * 2654435761u | 1;

	unsigned lives = 1 + draw(&x, LIVES);

	*h = (struct history){ .seed = seed, .bare = bare };
	for (size_t l = 0; l < LIVES; l++) {
		struct life *life = &h->life[l];
		unsigned actions = 2 + draw(&x, ACTIONS - 1);

		life->out = l >= lives;

		life->end = (enum life_end)draw(&x, ENDS);
		life->at = 1 + draw(&x, life->end == CRASH_AT_CALL ? 50 : bare ? 250 : 100);
		for (size_t i = 0; i < ACTIONS; i++) {
			unsigned kind = draw(&x, 2 * KINDS);

			life->action[i] = (struct action){ (enum action_kind)(kind < KINDS ? kind : kind % 4), draw(&x, 60), i >= actions };
		}
	}
}

static inline void history_print(const struct history *h)
{
	static const char *const kinds[] = { "create", "delete", "wait", "order", "fail at call", "fail from call", "work again",
					     "guest powers off", "port forgets", "pull", "plug", "release",
					     "reset from outside", "sick", "well", "request with a key" };
	static const char *const ends[] = { "stops", "dies at call", "killed at write", "power lost at write" };

	print_error("history of seed %u%s:\n", h->seed, h->bare ? ", without a store at first" : "");
	for (size_t l = 0; l < LIVES; l++) {
		if (h->life[l].out)
			continue;
		for (size_t i = 0; i < ACTIONS; i++)
			if (!h->life[l].action[i].out)
				print_error("  %s %u\n", kinds[h->life[l].action[i].kind], h->life[l].action[i].x);
		print_error("  the daemon %s %u\n", ends[h->life[l].end], h->life[l].end == CLEAN ? 0 : h->life[l].at);
	}
}
