/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "instance/store_schema.h"

#include "base/auto.h"
#include "instance/store.h"

/* device and its primary key: a function belongs to at most one instance, whatever the code above does.
 * original: what a thing on the machine was before the first instance touched it. */
static const char schema_1[] =
	"CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL) STRICT;"
	"INSERT INTO meta VALUES(1, 0);"
	"CREATE TABLE operation(id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,"
	" instance TEXT NOT NULL, state TEXT NOT NULL, code INTEGER NOT NULL DEFAULT 0, detail TEXT,"
	" created INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0, steps TEXT) STRICT;"
	"CREATE TABLE instance(name TEXT PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, state TEXT NOT NULL,"
	" error TEXT, created INTEGER NOT NULL, request TEXT NOT NULL, plan TEXT NOT NULL,"
	" operation INTEGER NOT NULL REFERENCES operation(id)) STRICT;"
	"CREATE TABLE device(bdf TEXT PRIMARY KEY, instance TEXT NOT NULL"
	" REFERENCES instance(name) ON DELETE CASCADE) STRICT;"
	"CREATE TABLE step(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE,"
	" seq INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, was TEXT NOT NULL,"
	" wanted TEXT NOT NULL, old TEXT, state TEXT NOT NULL, PRIMARY KEY(instance, seq)) STRICT;"
	"CREATE INDEX step_target ON step(kind, target);"
	"CREATE TABLE original(kind TEXT NOT NULL, target TEXT NOT NULL, value TEXT NOT NULL,"
	" PRIMARY KEY(kind, target)) STRICT;"
	"PRAGMA user_version = 1;";

/* 2: finding, what velad saw of running instances; and steps "acs". */
static const char schema_2[] =
	"CREATE TABLE finding(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, rule TEXT NOT NULL,"
	" device TEXT NOT NULL, text TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
	" times INTEGER NOT NULL, PRIMARY KEY(instance, rule, device)) STRICT;"
	"PRAGMA user_version = 2;";

/* 3: request_key, clients' own names for requests (Idempotency-Key). */
static const char schema_3[] =
	"CREATE TABLE request_key(uid INTEGER NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,"
	" operation INTEGER NOT NULL REFERENCES operation(id), created INTEGER NOT NULL, PRIMARY KEY(uid, key)) STRICT;"
	"CREATE INDEX request_key_operation ON request_key(operation);"
	"CREATE INDEX request_key_created ON request_key(created);"
	"PRAGMA user_version = 3;";

/* 4: quarantine; wear, how often a function was given. */
static const char schema_4[] =
	"CREATE TABLE quarantine(bdf TEXT PRIMARY KEY, serial TEXT, reason TEXT NOT NULL, since INTEGER NOT NULL,"
	" was TEXT, driver TEXT) STRICT;"
	"CREATE TABLE wear(bdf TEXT PRIMARY KEY, times INTEGER NOT NULL) STRICT;"
	"PRAGMA user_version = 4;";

/* 5: image, what was found out about those that were added; and steps "image", "disk", "seed". */
static const char schema_5[] =
	"CREATE TABLE image(instance TEXT PRIMARY KEY REFERENCES instance(name) ON DELETE CASCADE, format TEXT NOT NULL,"
	" size INTEGER NOT NULL, virtual_size INTEGER NOT NULL, mtime INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT;"
	"PRAGMA user_version = 5;";

/* 6: seconds that a stop leaves a guest; when guests crashed. */
static const char schema_6[] =
	"ALTER TABLE operation ADD COLUMN grace INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE crash(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, at INTEGER NOT NULL) STRICT;"
	"PRAGMA user_version = 6;";

/* 7: when an operation began, and how long it took; microseconds. */
static const char schema_7[] =
	"ALTER TABLE operation ADD COLUMN began INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE operation ADD COLUMN took INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 7;";

/* 8: generation of an instance: another one with each change of what a client sees of it. It is counted over all, so that one that
 * was made anew under its name has none that it had. */
static const char schema_8[] =
	"ALTER TABLE meta ADD COLUMN change INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE instance ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"
#define NEXT_OF(what) "BEGIN UPDATE meta SET change = change + 1;" \
		      " UPDATE instance SET generation = (SELECT change FROM meta) WHERE name = " what "; END;"
#define TRIGGERS \
	"CREATE TRIGGER instance_made AFTER INSERT ON instance " NEXT_OF("NEW.name") \
	"CREATE TRIGGER instance_changed AFTER UPDATE OF state, error, operation, request ON instance " NEXT_OF("NEW.name") \
	"CREATE TRIGGER finding_made AFTER INSERT ON finding " NEXT_OF("NEW.instance") \
	"CREATE TRIGGER finding_changed AFTER UPDATE ON finding " NEXT_OF("NEW.instance")
#define TRIGGER_GONE "CREATE TRIGGER finding_gone AFTER DELETE ON finding " NEXT_OF("OLD.instance")
	TRIGGERS
	"PRAGMA user_version = 8;";

/* 9: quarantine is of a place and the card that is in it, serial '' unknown; hangs: a call on it has not returned. */
static const char schema_9[] =
	"CREATE TABLE quarantine_9(bdf TEXT NOT NULL, serial TEXT NOT NULL, reason TEXT NOT NULL, since INTEGER NOT NULL, was TEXT,"
	" driver TEXT, hangs INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(bdf, serial)) STRICT;"
	"INSERT INTO quarantine_9 SELECT bdf, coalesce(serial, ''), reason, since, was, driver, 0 FROM quarantine;"
	"DROP TABLE quarantine;"
	"ALTER TABLE quarantine_9 RENAME TO quarantine;"
	"PRAGMA user_version = 9;";

/* 10: what a device is known by, and its PF; in which boot of the host an instance was started; what its domain is called, if not as
 * the instance; functions of domains that are no instance's. */
static const char schema_10[] =
	"ALTER TABLE device ADD COLUMN serial TEXT;"
	"ALTER TABLE device ADD COLUMN pf TEXT;"
	"ALTER TABLE instance ADD COLUMN boot TEXT;"
	"ALTER TABLE instance ADD COLUMN domain TEXT;"
	"CREATE TABLE foreign_device(bdf TEXT PRIMARY KEY, domain TEXT NOT NULL, uuid TEXT NOT NULL, runs INTEGER NOT NULL) STRICT;"
	TRIGGER_GONE
	STORE_IDENTIFY ";"
	"PRAGMA user_version = 10;";

/* 11: the PF of a VF in quarantine; whether another card is in the place. */
static const char schema_11[] =
	"ALTER TABLE quarantine ADD COLUMN pf TEXT;"
	"ALTER TABLE quarantine ADD COLUMN away INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 11;";

/* 12: an operation that failed and is to be tried again: how often it was, and when it is next (microseconds since 1970; 0 at once). */
static const char schema_12[] =
	"ALTER TABLE operation ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE operation ADD COLUMN due INTEGER NOT NULL DEFAULT 0;"
	"PRAGMA user_version = 12;";

/* 13: those that wait or run, which are few, by themselves. */
static const char schema_13[] =
	"CREATE INDEX operation_open ON operation(instance) WHERE finished = 0;"
	"PRAGMA user_version = 13;";

/* 14: cell, what of a host's nodes the cells of an instance's plan take: who plans asks for those of all, and to read each plan for it takes
 * longer than planning does. seq -1: the plan cannot be read. */
static const char schema_14[] =
	"CREATE TABLE cell(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, seq INTEGER NOT NULL, node INTEGER,"
	" memory INTEGER, hugepages INTEGER, cpus TEXT, exclusive INTEGER, PRIMARY KEY(instance, seq)) STRICT, WITHOUT ROWID;"
	STORE_CELLS("CASE WHEN json_valid(plan) THEN plan ELSE '{}' END") ";"
	"INSERT INTO cell(instance, seq) SELECT name, -1 FROM instance WHERE NOT json_valid(plan);"
	"PRAGMA user_version = 14;";

/* 15: fewer b-trees, for each is a page more in a commit. A number of an operation comes once without AUTOINCREMENT, too: the newest is never
 * dropped (instance/op). A UUID is 122 random bits (sd_id128_randomize(3)), and nobody asks for one. Foreign keys are off meanwhile, or
 * to drop a table would delete what refers to it. */
static const char schema_15[] =
	"DROP TRIGGER instance_made; DROP TRIGGER instance_changed;"
	"DROP TRIGGER finding_made; DROP TRIGGER finding_changed; DROP TRIGGER finding_gone;"
	"CREATE TABLE operation_15(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, instance TEXT NOT NULL, state TEXT NOT NULL,"
	" code INTEGER NOT NULL DEFAULT 0, detail TEXT, created INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0, steps TEXT,"
	" grace INTEGER NOT NULL DEFAULT 0, began INTEGER NOT NULL DEFAULT 0, took INTEGER NOT NULL DEFAULT 0,"
	" tries INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0) STRICT;"
	"INSERT INTO operation_15 SELECT id, kind, instance, state, code, detail, created, finished, steps, grace, began, took, tries, due"
	" FROM operation;"
	"DROP TABLE operation;"
	"ALTER TABLE operation_15 RENAME TO operation;"
	"CREATE INDEX operation_open ON operation(instance) WHERE finished = 0;"
	"CREATE TABLE instance_15(name TEXT PRIMARY KEY, uuid TEXT NOT NULL, state TEXT NOT NULL, error TEXT, created INTEGER NOT NULL,"
	" request TEXT NOT NULL, plan TEXT NOT NULL, operation INTEGER NOT NULL REFERENCES operation(id),"
	" generation INTEGER NOT NULL DEFAULT 0, boot TEXT, domain TEXT) STRICT;"
	"INSERT INTO instance_15 SELECT name, uuid, state, error, created, request, plan, operation, generation, boot, domain FROM instance;"
	"DROP TABLE instance;"
	"ALTER TABLE instance_15 RENAME TO instance;"
	"CREATE TABLE step_15(instance TEXT NOT NULL REFERENCES instance(name) ON DELETE CASCADE, seq INTEGER NOT NULL, kind TEXT NOT NULL,"
	" target TEXT NOT NULL, was TEXT NOT NULL, wanted TEXT NOT NULL, old TEXT, state TEXT NOT NULL,"
	" PRIMARY KEY(instance, seq)) STRICT, WITHOUT ROWID;"
	"INSERT INTO step_15 SELECT instance, seq, kind, target, was, wanted, old, state FROM step;"
	"DROP TABLE step;"
	"ALTER TABLE step_15 RENAME TO step;"
	"CREATE INDEX step_target ON step(kind, target);"
	TRIGGERS
	TRIGGER_GONE
	"PRAGMA user_version = 15;";

const char *const store_schemas[] = { schema_1, schema_2, schema_3, schema_4, schema_5, schema_6, schema_7,
				      schema_8, schema_9, schema_10, schema_11, schema_12, schema_13, schema_14,
				      schema_15 };

_Static_assert(ARRAY_SIZE(store_schemas) == STORE_VERSION, "the last one makes this version");
