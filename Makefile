# SPDX-License-Identifier: MIT
#
# A thin cover over Meson and Ninja, which do the work in build/.

BUILD  ?= build
PREFIX ?= /usr/local
DESTDIR ?=

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

install: $(BUILD)/build.ninja
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	DESTDIR='$(if $(DESTDIR),$(abspath $(DESTDIR)))' meson install -C $(BUILD)

deps:
	./scripts/deps

demo:
	./scripts/demo

test:
	./scripts/test

# The cases at their full size: takes a quarter of an hour and most of the machine.
stress: all
	VARVE_SCALE=full ./scripts/test gcc

bench: all
	meson test -C $(BUILD) --benchmark --verbose --num-processes 1

lint:
	./scripts/lint

format:
	./scripts/lint --format

clean:
	rm -rf build build-*

.PHONY: all install deps demo test stress bench lint format clean
