# tcld: one non-recursive Makefile.  `make help` lists the targets.
#   V=1            show whole commands
#   SAN=address    (also undefined, thread, address,undefined) sanitized build in build/san-$(SAN)
#   CC=clang       other compiler
#   DESTDIR=, PREFIX=/usr/local  for install

ifeq ($(origin CC),default)
CC       := gcc
endif
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
UNITDIR  ?= $(PREFIX)/lib/systemd/system
VERSION  := 0.1.0
SAN      ?=
comma    := ,
BUILD    := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))

WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings
OPT      ?= -O2 -g
CFLAGS   ?=
ALL_CFLAGS = -std=gnu11 $(OPT) $(WARN) -fPIC -fno-math-errno -ffp-contract=off -D_GNU_SOURCE -DTCLD_VERSION='"$(VERSION)"' -I. -I$(BUILD)/gen \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

PKGS_LIB    := sqlite3 zlib libzstd nettle openblas jansson
PKGS_DAEMON := libmicrohttpd jansson libuv inih gnutls
PKGS_CLIENT := libcurl jansson inih
PKGS_TEST   := check
PKGS        := $(sort $(PKGS_LIB) $(PKGS_DAEMON) $(PKGS_CLIENT) $(PKGS_TEST))
PKG_CONFIG  ?= pkg-config
PKG_CFLAGS   = $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
libs         = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null)

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

# ---- sources -------------------------------------------------------------------------------------------------------
ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
ifeq ($(ARCH),x86_64)
SIMD := portable avx2 avx512
else ifeq ($(ARCH),aarch64)
SIMD := portable neon
else
SIMD := portable
endif
# avx512: the Skylake-X set; every machine with it also has avx2, fma, bmi2
SIMD_FLAGS_portable := -O3 -fno-trapping-math
SIMD_FLAGS_avx2     := -O3 -mavx2 -mfma -mbmi2 -ffp-contract=fast
SIMD_FLAGS_avx512   := -O3 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mbmi2 -mprefer-vector-width=512 -ffp-contract=fast
SIMD_FLAGS_neon     := -O3 -ffp-contract=fast

src      = $(sort $(wildcard $(1)/*.c))
obj      = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
# model/simd_*.c is compiled once per kernel set (-DTM_SIMD=<set>); model/kern_<set>.c belongs to one set
# and says itself where a multiply and an add are fused
SIMD_TPL := $(sort $(wildcard model/simd_*.c))
KERN_ALL := $(sort $(wildcard model/kern_*.c))
KERN_OBJ := $(foreach s,$(SIMD),$(if $(wildcard model/kern_$(s).c),$(BUILD)/obj/model/kern_$(s).o) \
	$(foreach t,$(SIMD_TPL),$(patsubst model/%.c,$(BUILD)/obj/model/%.$(s).o,$(t))))
PROTO_OBJ := $(call obj,$(call src,proto))
LIB_SRC  := $(filter-out $(SIMD_TPL) $(KERN_ALL),$(foreach d,proto model store sampler ckd,$(call src,$(d))))
LIB_OBJ  := $(call obj,$(LIB_SRC)) $(KERN_OBJ)
# model/real_*.c is compiled a second time with -DTM_DOUBLE for the gradient check
DOUBLE_OBJ := $(patsubst model/%.c,$(BUILD)/obj/model/%.double.o,$(wildcard model/real_*.c model/simd_*.c))
DAEMON_OBJ := $(call obj,$(filter-out daemon/main.c,$(call src,daemon)))
CLIENT_OBJ := $(call obj,$(filter-out clients/main_%.c,$(call src,clients)))
LAB_OBJ    := $(call obj,$(filter-out lab/main.c,$(call src,lab)))
REPLAY_OBJ := $(call obj,$(call src,clients/replay))
CTL_OBJ    := $(call obj,$(call src,clients/ctl))
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
HTTP     := $(patsubst tests/http/%.c,$(BUILD)/http/%,$(wildcard tests/http/test_*.c))
HTTP_COMMON := $(call obj,$(filter-out $(wildcard tests/http/test_*.c),$(call src,tests/http)))
FAULT    := $(patsubst tests/fault/%.c,$(BUILD)/fault/%,$(wildcard tests/fault/test_*.c tests/fault/soak.c))
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
BENCH_COMMON := $(call obj,$(filter-out $(wildcard tests/bench/bench_*.c),$(call src,tests/bench)))
UNIT_COMMON := $(call obj,$(filter-out $(wildcard tests/unit/test_*.c),$(call src,tests/unit)))

.PHONY: help all deps demo run check check-unit check-neon check-http check-web lint check-fault check-fuzz fault soak bench kb fuzz install deb check-tvm check-docs check-openapi docs clean FORCE
.SECONDARY:
.DEFAULT_GOAL := all

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

all: $(addprefix $(BUILD)/,tcld tclctl lab replay libtclfeat.a libtclfeat.so) ## build tcld, tclctl, lab, replay, libtclfeat

deps: ## find what is missing and install it (root or sudo), or print the line to type
	$(Q)PKGS="$(PKGS)" PKG_CONFIG="$(PKG_CONFIG)" CC="$(CC)" sh config/deps.sh

# ---- rules ---------------------------------------------------------------------------------------------------------
$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/obj/model/%.double.o: model/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,'$< (double)')
	$(Q)$(CC) $(ALL_CFLAGS) -O3 -DTM_DOUBLE -DTM_SIMD=portable -MMD -MP -c -o $@ $<
define simd_rules
$(BUILD)/obj/model/kern_$(1).o: model/kern_$(1).c Makefile
	@mkdir -p $$(@D)
	$$(call say,CC,$$<)
	$(Q)$(CC) $$(ALL_CFLAGS) $$(SIMD_FLAGS_$(1)) -ffp-contract=off -DTM_SIMD=$(1) -MMD -MP -c -o $$@ $$<
$(BUILD)/obj/model/%.$(1).o: model/%.c Makefile
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')
	$(Q)$(CC) $$(ALL_CFLAGS) $$(SIMD_FLAGS_$(1)) -DTM_SIMD=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach s,$(SIMD),$(eval $(call simd_rules,$(s))))
$(BUILD)/obj/daemon/h_web.o: $(BUILD)/gen/web_files.inc
$(BUILD)/gen/web_files.inc: $(sort $(wildcard daemon/web/*.*))
	$(call say,EMBED,daemon/web)
	$(Q)mkdir -p $(@D) && sh daemon/web/embed.sh $(filter-out %.sh,$^) >$@.tmp && mv $@.tmp $@
# training and selection are hot paths of jobs
$(BUILD)/obj/model/real_%.o $(BUILD)/obj/sampler/%.o: OPT := -O3 -g

$(BUILD)/obj/daemon/openapi.o: daemon/openapi.json

$(BUILD)/libtcl.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libtclfeat.a: $(PROTO_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libtclfeat.so: $(PROTO_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libtclfeat.so.1 -o $@ $^ $(call libs,nettle zlib) -lm
$(BUILD)/tcld: $(BUILD)/obj/daemon/main.o $(DAEMON_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/liblab.a: $(LAB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/lab: $(BUILD)/obj/lab/main.o $(BUILD)/liblab.a $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_LIB)) -lm -lpthread
$(BUILD)/demo: $(BUILD)/obj/clients/main_demo.o $(CLIENT_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/replay: $(REPLAY_OBJ) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/tclctl: $(CTL_OBJ) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/apidoc: $(BUILD)/obj/tests/docs/apidoc.o $(DAEMON_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_COMMON) $(DOUBLE_OBJ) $(DAEMON_OBJ) $(BUILD)/liblab.a $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_TEST) $(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/http/%: $(BUILD)/obj/tests/http/%.o $(HTTP_COMMON) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_TEST) $(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread

$(BUILD)/fault/%: $(BUILD)/obj/tests/fault/%.o $(call obj,tests/fault/with.c) $(HTTP_COMMON) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_TEST) $(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/drive.o $(DAEMON_OBJ) $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/fault/shim.so: tests/fault/shim.c tests/fault/fault.h Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=gnu11 -O2 $(WARN) -D_GNU_SOURCE -I. -fPIC -shared -o $@ $< -ldl

# ---- what people run -----------------------------------------------------------------------------------------------
# The first make installs what is missing, the second one sees it (pkg-config runs once per make).
demo: ## set up, start tcld, rank unseen programs, adapt to real logs, rank them again
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory $(BUILD)/tcld $(BUILD)/demo
	$(Q)$(BUILD)/demo --tcld $(BUILD)/tcld --logs tests/data/demo

run: ## the same, then leave the daemon running and print three curl lines
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory $(BUILD)/tcld $(BUILD)/demo
	$(Q)$(BUILD)/demo --tcld $(BUILD)/tcld --logs tests/data/demo --keep-running

check: ## set up, lint, unit tests, black-box tests, the dashboard, faults (short)
	$(Q)LINT_TOOLS=1 $(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory lint all check-unit check-neon check-http check-web check-fault check-fuzz check-tvm check-docs check-openapi
	@echo "check: all passed"

check-unit: $(UNIT)
	$(Q)export CK_DEFAULT_TIMEOUT=120; for t in $(UNIT); do $$t || exit 1; done
check-http: $(HTTP) $(BUILD)/tcld $(BUILD)/replay $(BUILD)/tclctl
	$(Q)export CK_DEFAULT_TIMEOUT=240 TCLD_SLOW=$(or $(TCLD_SLOW),$(if $(SAN),1)) TCLD=$(BUILD)/tcld REPLAY=$(BUILD)/replay TCLCTL=$(BUILD)/tclctl; for t in $(HTTP); do $$t || exit 1; done
check-web: $(BUILD)/tcld ## the dashboard in headless Chromium
	$(Q)sh tests/web/check.sh $(BUILD)/tcld $(BUILD)/web
check-fault: $(FAULT) $(BUILD)/fault/shim.so $(BUILD)/tcld
	$(Q)export CK_DEFAULT_TIMEOUT=240 TCLD_SLOW=$(or $(TCLD_SLOW),$(if $(SAN),1)) TCLD=$(BUILD)/tcld FAULT_SHIM=$(BUILD)/fault/shim.so; for t in $(FAULT); do $$t || exit 1; done
check-fuzz: $(FUZZ:%=$(BUILD)/fuzz/%)
	$(Q)for t in $(FUZZ); do $(BUILD)/fuzz/$$t tests/fuzz/corpus/$$t || exit 1; done
fault: ## kills, full and broken disks, damaged files, clocks, hard clients: the long form
	$(Q)TCLD_BIG=1 $(MAKE) --no-print-directory check-fault
soak: $(BUILD)/fault/soak $(BUILD)/tcld ## everything at once for SOAK_SECONDS=1200: memory and descriptors stay flat
	$(Q)TCLD=$(BUILD)/tcld SOAK_SECONDS=$(or $(SOAK_SECONDS),1200) $<
check-tvm: $(BUILD)/tcld ## the Python client of TVM, without TVM
	$(Q)sh tests/tvm/check.sh $<
check-docs: $(addprefix $(BUILD)/,apidoc tcld tclctl replay) ## docs/api.md is current, the guides run
	$(Q)$< | diff -u docs/api.md - || { echo "check-docs: docs/api.md is not current: make docs"; exit 1; }
	$(Q)BUILD=$(BUILD) sh tests/docs/paths.sh
check-openapi: $(BUILD)/tcld ## the API description, by a public validator
	$(Q)BUILD=$(BUILD) sh tests/docs/openapi.sh
docs: $(BUILD)/apidoc ## write docs/api.md from the route table
	$(Q)$< > docs/api.md

# Without any library for ARM: tests/plain/check.h stands in for Check, and only the kernels are linked.
check-neon: ## the NEON kernels against the portable ones, under qemu-user
	$(Q)for t in aarch64-linux-gnu-gcc qemu-aarch64-static; do \
	  command -v $$t >/dev/null || { echo "check-neon: $$t is not installed: NEON kernels not run"; exit 0; }; done; \
	$(MAKE) --no-print-directory CC=aarch64-linux-gnu-gcc BUILD=build/neon PKG_CFLAGS=-Itests/plain CFLAGS=-ffunction-sections build/neon/kernels && \
	qemu-aarch64-static build/neon/kernels
$(BUILD)/kernels: $(BUILD)/obj/tests/unit/test_model_kern.o $(call obj,model/kern.c model/net.c model/simd.c) $(KERN_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -static -Wl,--gc-sections -o $@ $^ -lm

lint: ## format, include direction, banned functions, cppcheck
	$(Q)sh tests/lint/lint.sh

bench: bench-model bench-http bench-lane bench-train bench-parse ## measure, beside peers (docs/performance.md)
bench-%: $(BUILD)/bench_%
	$(Q)$<
bench-lane bench-adapt bench-overload bench-fleet bench-http: $(BUILD)/tcld $(BUILD)/replay $(BUILD)/libtclfeat.so
bench-parse: $(shell $(PKG_CONFIG) --exists simdjson 2>/dev/null && echo $(BUILD)/peer_simdjson)
$(BUILD)/peer_simdjson: tests/bench/peer_simdjson.cc
	$(call say,CXX,$<)
	$(Q)$(CXX) -O3 -march=native -std=c++17 -Wall -Wextra -o $@ $< $(call libs,simdjson)
$(BUILD)/bench_%: $(BUILD)/obj/tests/bench/bench_%.o $(BENCH_COMMON) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,libmicrohttpd $(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread

kb: $(BUILD)/lab ## train the starter knowledge (config/kb) from the logs of ../shared
	$(Q)LAB=$(BUILD)/lab sh config/kb/train.sh
FUZZ_DIR := build/san-address-undefined
$(FUZZ_DIR)/libtcld.a: $(DAEMON_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
fuzz: ## libFuzzer on what comes from outside, FUZZ_SECONDS=60 each (clang)
	$(Q)$(MAKE) --no-print-directory CC=clang SAN=address,undefined CFLAGS=-fsanitize=fuzzer-no-link $(FUZZ_DIR)/libtcl.a $(FUZZ_DIR)/libtcld.a
	$(Q)for t in $(FUZZ); do \
	  clang -g -std=gnu11 -D_GNU_SOURCE -I. $(PKG_CFLAGS) -fsanitize=fuzzer,address,undefined -o build/fuzz_$$t tests/fuzz/fuzz_$$t.c \
	    $(FUZZ_DIR)/libtcld.a $(FUZZ_DIR)/libtcl.a $(call libs,$(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread && mkdir -p build/corpus/$$t && \
	  build/fuzz_$$t -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=65536 -timeout=25 -print_final_stats=1 build/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done

install: all ## install under DESTDIR, PREFIX, LIBDIR and UNITDIR
	install -d $(DESTDIR)/etc/tcld $(DESTDIR)$(LIBDIR) $(DESTDIR)$(UNITDIR)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/sbin $(BUILD)/tcld
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILD)/tclctl
	install -m 644 $(BUILD)/libtclfeat.a $(DESTDIR)$(LIBDIR)/
	install -m 644 $(BUILD)/libtclfeat.so $(DESTDIR)$(LIBDIR)/libtclfeat.so.1 && ln -sf libtclfeat.so.1 $(DESTDIR)$(LIBDIR)/libtclfeat.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/proto $(addprefix proto/,tclfeat.h record.h target.h buf.h err.h errors.def steps.def)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 docs/tcld.8
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/tclctl.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 docs/tcld.conf.5
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tcld docs/*.md docs/*.svg config/tokens.example config/grafana-dashboard.json config/prometheus-alerts.yml
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/tcld/kb config/kb/cpu.safetensors config/kb/gpu.safetensors config/kb/README.md
	install -D -m 644 config/tcld.bash-completion $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tcld
	$(BUILD)/tclctl completion > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tclctl
	install -D -m 644 systemd/tcld.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/tcld.conf
	install -D -m 644 systemd/tcld.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/tcld.conf
	[ -e $(DESTDIR)/etc/tcld/tcld.conf ] || install -m 640 config/tcld.conf $(DESTDIR)/etc/tcld/
	sed 's|/usr/sbin/tcld|$(PREFIX)/sbin/tcld|' systemd/tcld.service > $(DESTDIR)$(UNITDIR)/tcld.service
	install -m 644 systemd/tcld.socket $(DESTDIR)$(UNITDIR)/

deb: ## Debian packages in build/deb (debhelper; lintian when it is there)
	$(Q)rm -rf build/deb && mkdir -p build/deb/tcld-$(VERSION)
	$(Q)tar -cf - --exclude=./build --exclude=./.git --exclude=./var . | tar -C build/deb/tcld-$(VERSION) -xf -
	$(Q)cd build/deb/tcld-$(VERSION) && dpkg-buildpackage -b -us -uc >../build.log 2>&1 || { tail -20 ../build.log; exit 1; }
	$(Q)command -v lintian >/dev/null || { echo "deb: lintian is not installed: packages not checked"; exit 0; }; \
	  lintian --allow-root --fail-on error,warning build/deb/*.changes && ls build/deb/*.deb

clean: ## remove build/
	$(Q)rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
