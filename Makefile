# tcld: one non-recursive Makefile.  `make help` lists the targets.
#   V=1            show whole commands
#   SAN=address    (also undefined, thread, address,undefined) sanitized build in build/san-$(SAN)
#   CC=clang       other compiler
#   DESTDIR=, PREFIX=/usr/local  for install

ifeq ($(origin CC),default)
CC       := gcc
endif
PREFIX   ?= /usr/local
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
PKGS_DAEMON := libmicrohttpd jansson libuv inih
PKGS_CLIENT := libcurl jansson
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
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
HTTP     := $(patsubst tests/http/%.c,$(BUILD)/http/%,$(wildcard tests/http/test_*.c))
HTTP_COMMON := $(call obj,$(filter-out $(wildcard tests/http/test_*.c),$(call src,tests/http)))
BENCH_COMMON := $(call obj,$(filter-out $(wildcard tests/bench/bench_*.c),$(call src,tests/bench)))
UNIT_COMMON := $(call obj,$(filter-out $(wildcard tests/unit/test_*.c),$(call src,tests/unit)))

.PHONY: help all deps demo run check check-unit check-neon check-http lint bench kb fuzz install clean FORCE
.SECONDARY:
.DEFAULT_GOAL := all

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

all: $(BUILD)/tcld $(BUILD)/lab $(BUILD)/replay $(BUILD)/libtclfeat.a $(BUILD)/libtclfeat.so ## build tcld, lab, replay, libtclfeat

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
# training and selection are hot paths of jobs
$(BUILD)/obj/model/real_%.o $(BUILD)/obj/sampler/%.o: OPT := -O3 -g

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
$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_COMMON) $(DOUBLE_OBJ) $(DAEMON_OBJ) $(BUILD)/liblab.a $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_TEST) $(PKGS_DAEMON) $(PKGS_LIB)) -lm -lpthread
$(BUILD)/http/%: $(BUILD)/obj/tests/http/%.o $(HTTP_COMMON) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,$(PKGS_TEST) $(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread

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

check: ## set up, lint, unit tests, black-box tests
	$(Q)LINT_TOOLS=1 $(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory lint all check-unit check-neon check-http
	@echo "check: all passed"

check-unit: $(UNIT)
	$(Q)export CK_DEFAULT_TIMEOUT=120; for t in $(UNIT); do $$t || exit 1; done
check-http: $(HTTP) $(BUILD)/tcld $(BUILD)/replay
	$(Q)export CK_DEFAULT_TIMEOUT=240; for t in $(HTTP); do TCLD=$(BUILD)/tcld REPLAY=$(BUILD)/replay $$t || exit 1; done

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
bench-lane bench-adapt: $(BUILD)/tcld
bench-fleet: $(BUILD)/tcld $(BUILD)/replay
bench-http: $(BUILD)/tcld $(BUILD)/libtclfeat.so
bench-parse: $(shell $(PKG_CONFIG) --exists simdjson 2>/dev/null && echo $(BUILD)/peer_simdjson)
$(BUILD)/peer_simdjson: tests/bench/peer_simdjson.cc
	$(call say,CXX,$<)
	$(Q)$(CXX) -O3 -march=native -std=c++17 -Wall -Wextra -o $@ $< $(call libs,simdjson)
$(BUILD)/bench_%: $(BUILD)/obj/tests/bench/bench_%.o $(BENCH_COMMON) $(CLIENT_OBJ) $(BUILD)/libtcl.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(call libs,libmicrohttpd $(PKGS_CLIENT) $(PKGS_LIB)) -lm -lpthread

FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
kb: $(BUILD)/lab ## train the starter knowledge (config/kb) from the logs of ../shared
	$(Q)LAB=$(BUILD)/lab sh config/kb/train.sh
fuzz: ## libFuzzer on the parsers, FUZZ_SECONDS=60 each (clang)
	$(Q)$(MAKE) --no-print-directory CC=clang SAN=address,undefined CFLAGS=-fsanitize=fuzzer-no-link build/san-address-undefined/libtcl.a
	$(Q)for t in $(FUZZ); do \
	  clang -g -std=gnu11 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined -o build/fuzz_$$t tests/fuzz/fuzz_$$t.c \
	    build/san-address-undefined/libtcl.a $(call libs,$(PKGS_LIB)) -lm -lpthread && mkdir -p build/corpus/$$t && \
	  build/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -print_final_stats=1 build/corpus/$$t tests/fuzz/corpus/$$t || exit 1; done

install: all ## install under DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include/proto $(DESTDIR)$(PREFIX)/share/man/man5 \
	  $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)/etc/tcld $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 755 $(BUILD)/tcld $(DESTDIR)$(PREFIX)/sbin/tcld
	install -m 644 $(BUILD)/libtclfeat.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(BUILD)/libtclfeat.so $(DESTDIR)$(PREFIX)/lib/libtclfeat.so.1
	ln -sf libtclfeat.so.1 $(DESTDIR)$(PREFIX)/lib/libtclfeat.so
	install -m 644 proto/tclfeat.h proto/record.h proto/target.h proto/buf.h proto/err.h proto/errors.def proto/steps.def $(DESTDIR)$(PREFIX)/include/proto/
	install -m 644 docs/tcld.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 644 docs/tcld.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	install -d $(DESTDIR)$(PREFIX)/share/tcld/kb
	install -m 644 config/kb/cpu.safetensors config/kb/gpu.safetensors $(DESTDIR)$(PREFIX)/share/tcld/kb/
	[ -e $(DESTDIR)/etc/tcld/tcld.conf ] || install -m 644 config/tcld.conf $(DESTDIR)/etc/tcld/
	sed 's|/usr/sbin/tcld|$(PREFIX)/sbin/tcld|' systemd/tcld.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/tcld.service

clean: ## remove build/
	$(Q)rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
