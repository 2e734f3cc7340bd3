# SPDX-License-Identifier: GPL-2.0-or-later
# velad: plain make. Rooms are found by wildcard; each src/<room>/ becomes build/<room>.a.
#
#   make                       build/velad, build/velad-helper, build/velad-libvirt and build/velactl
#   make check                 check-unit, fuzz, then check-lab (root; emulates a whole GPU host)
#   make chaos                 random histories, failing memory, and a kill and a failure at every point, for a night
#   make tsan memcheck         every test program under ThreadSanitizer, under valgrind
#   make demo                  a guest with a GPU and a VF below one switch, in the emulated GPU host (root)
#   make SAN=address,undefined check-unit     with sanitizers; V=1 shows commands
#   make install DESTDIR=...   PREFIX is /usr/local, configuration goes to /etc/velad

CC        ?= gcc
PREFIX    ?= /usr/local
SYSCONFDIR ?= /etc
B         := build$(if $(filter thread,$(SAN)),-tsan,$(if $(SAN),-san))$(if $(filter clang%,$(notdir $(CC))),-clang)
Q         := $(if $(V),,@)

VERSION   := 0.1
ROOMS     := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard src/*/*.c)))))
TOOLS     := velad velad-helper velad-libvirt velactl
PKGS      := json-c libxml-2.0 libsystemd libmicrohttpd sqlite3 nettle inih smartcols libkmod libvirt libpci libnl-genl-3.0 zlib libarchive

CFLAGS    ?= -O2 -g
WARN      := -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
             -Wformat=2 -Wvla -Wwrite-strings -Wundef -Wno-missing-field-initializers
CPPFLAGS  += -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DVELAD_VERSION='"$(VERSION)"' \
             -DVELAD_CONF='"$(SYSCONFDIR)/velad/velad.conf"' -Iinclude -Isrc -I$(B)/gen
# -Wno-error with sanitizers: the manual of gcc says that its warnings are often wrong then
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(PKG_CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-error)
LDFLAGS   += $(if $(SAN),-fsanitize=$(SAN)) -pthread

PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell pkg-config --cflags $(PKGS) || echo missing))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(shell pkg-config --libs $(PKGS)) -lhttp_parser)$(PKG_LIBS)

objs       = $(patsubst src/%.c,$(B)/obj/%.o,$(wildcard src/$(1)/*.c))
# what each program is made of: the arrows of docs/architecture.md, as files; the first has its main.c
velad_ROOMS   := velad instance act guest check plan topo host api client base
velad-helper_ROOMS := helper act plan topo host base
velad-libvirt_ROOMS := hyper act plan host base
velactl_ROOMS := velactl guest check plan topo host api client base
archives   = $(foreach r,$(1),$(if $(wildcard src/$(r)/*.c),$(B)/$(r).a))

.PHONY: all
all: $(foreach t,$(TOOLS),$(B)/$(t))

$(B)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $<')
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The shipped configuration is also the built-in one: both tools work without an installed file.
$(B)/gen/conf_default.inc: conf/velad.conf
	@mkdir -p $(@D)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< > $@
$(B)/obj/base/conf.o: $(B)/gen/conf_default.inc
$(B)/gen/openapi.inc: docs/openapi.json
	@mkdir -p $(@D)
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< > $@
$(B)/obj/velad/methods.o: $(B)/gen/openapi.inc
# Its loops are a few turns long: made into vectors, as gcc 12 does with -O2, they are slower (tests/bench/solve.c).
$(B)/obj/plan/few_vfs.o: ALL_CFLAGS += -fno-tree-vectorize

define ROOM_RULE
$(B)/$(1).a: $(call objs,$(1))
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call ROOM_RULE,$(r))))

define TOOL_RULE
$(B)/$(1): $(call archives,$($(1)_ROOMS))
	$$(if $$(Q),@echo '  LD    $$@')
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $(B)/obj/$(firstword $($(1)_ROOMS))/main.o \
		-Wl,--as-needed -Wl,-z,pack-relative-relocs -Wl,--start-group $$^ -Wl,--end-group $$(PKG_LIBS)
endef
$(foreach t,$(TOOLS),$(eval $(call TOOL_RULE,$(t))))

# ---- tests -------------------------------------------------------------------------------------------
TESTS     := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/*/test_*.c))
ALL_ROOMS := $(call archives,instance helper hyper act guest check plan topo host api client velactl velad base)

$(B)/tests/%: tests/%.c $(ALL_ROOMS)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  TEST  $<')
	$(Q)$(CC) $(CPPFLAGS) -Itests $(ALL_CFLAGS) -DTEST_SOURCE='"$(CURDIR)"' -MMD -MP $(LDFLAGS) -o $@ $< \
		-Wl,--start-group $(ALL_ROOMS) -Wl,--end-group $(PKG_LIBS) -lcmocka -lm

# the simulated kernel that serves a text host (FUSE); tests/hostsim/*.sh run velad on it
HOSTSIM   := $(B)/tests/hostsim/hostsim
$(HOSTSIM): $(filter-out tests/hostsim/test_%,$(wildcard tests/hostsim/*.c)) $(call archives,plan topo host base)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  TEST  tests/hostsim')
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(filter-out %.h,$^) $$(pkg-config --cflags --libs fuse3 json-c)
$(HOSTSIM): $(wildcard tests/hostsim/*.h)

# what tests/crash loads into velad and velad-helper
PRELOAD   := $(B)/tests/crash/preload.so
$(PRELOAD): tests/crash/preload.c
	@mkdir -p $(@D)
	$(if $(Q),@echo '  TEST  $<')
	$(Q)$(CC) $(CPPFLAGS) -std=gnu17 $(WARN) $(CFLAGS) $(PKG_CFLAGS) -shared -fPIC -o $@ $<

.PHONY: check build-tests check-unit check-lab golden demo arrows lint bench deps install clean fuzz chaos tsan memcheck
# a make of its own, which uses all processors where nobody said how many
ALL_CPUS   = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$$(nproc))

check: deps # then build: the compiler may have come with it just now
	+$(Q)$(ALL_CPUS) all build-tests
	$(Q)tests/check unit fuzz lab

build-tests: $(TESTS) $(HOSTSIM) $(PRELOAD)

check-unit: all build-tests
	$(Q)tests/check --build $(B) unit

check-lab: all
	$(Q)tests/check lab

tsan:
	+$(Q)$(ALL_CPUS) SAN=thread all build-tests
	$(Q)tests/check --build build-tsan threads

memcheck: all build-tests
	$(Q)tests/check --build $(B) memcheck

golden: all
	$(Q)tests/golden/run --update

demo: deps
	+$(Q)$(ALL_CPUS) --silent all
	$(Q)tests/lab/demo

arrows:
	$(Q)tests/arrows.sh

lint:
	$(Q)tests/lint.sh

bench: all
	$(Q)tests/bench/run

# CHAOS=n: so many random histories
chaos: all build-tests
	$(Q)tests/check --build $(B) chaos

fuzz:
	$(Q)tests/fuzz/run

deps:
	$(Q)tests/deps.sh

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(SYSCONFDIR)/velad/velad.conf.d \
		$(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d \
		$(DESTDIR)$(PREFIX)/lib/tmpfiles.d $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man8 \
		$(DESTDIR)$(PREFIX)/share/doc/velad $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -d $(DESTDIR)$(PREFIX)/include/velad
	install -m 644 include/velad/client.h $(DESTDIR)$(PREFIX)/include/velad/client.h
	install -m 644 $(B)/client.a $(DESTDIR)$(PREFIX)/lib/libvelad.a
	install -m 755 $(B)/velad $(DESTDIR)$(PREFIX)/sbin/velad
	install -m 755 $(B)/velad-helper $(DESTDIR)$(PREFIX)/sbin/velad-helper
	install -m 755 $(B)/velad-libvirt $(DESTDIR)$(PREFIX)/sbin/velad-libvirt
	install -m 755 $(B)/velactl $(DESTDIR)$(PREFIX)/bin/velactl
	test -e $(DESTDIR)$(SYSCONFDIR)/velad/velad.conf || \
		install -m 644 conf/velad.conf $(DESTDIR)$(SYSCONFDIR)/velad/velad.conf
	for u in velad velad-helper; do \
		sed 's|@PREFIX@|$(PREFIX)|g' systemd/$$u.service.in > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$u.service && \
		install -m 644 systemd/$$u.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/$$u.socket || exit 1; done
	install -m 644 systemd/velad.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/velad.conf
	install -m 644 systemd/velad.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/velad.conf
	install -m 644 docs/velactl.1 $(DESTDIR)$(PREFIX)/share/man/man1/velactl.1
	install -m 644 docs/velad.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5/velad.conf.5
	install -m 644 docs/velad.8 docs/velad-helper.8 docs/velad-libvirt.8 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 conf/velactl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/velactl
	install -m 644 docs/openapi.json $(DESTDIR)$(PREFIX)/share/doc/velad/openapi.json

clean:
	rm -rf $(B)/obj $(B)/tests $(B)/gen $(B)/*.a $(addprefix $(B)/,$(TOOLS))

-include $(shell find $(B)/obj $(B)/tests -name '*.d' 2>/dev/null)
