"""A wall clock that can be stepped, for processes that are started with it: the store's server and the workers.

A small library is compiled and loaded before the C library, and adds an offset to what the system says. Where there is
no C compiler, no clock is stepped. Monotonic clocks stay as they are, as on a machine whose time is set.
"""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t offset_ms(void) {
  static volatile int64_t *shared;
  if (!shared) {
    const char *path = getenv("STORM_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    void *found = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) return 0;
    shared = found;
  }
  return *shared;
}

int clock_gettime(clockid_t id, struct timespec *at) {
  int failed = (int)syscall(SYS_clock_gettime, id, at);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t ns = at->tv_nsec + (offset_ms() % 1000) * 1000000;
  at->tv_sec += offset_ms() / 1000 + (ns >= 1000000000) - (ns < 0);
  at->tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
  return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


class SteppedClock:
    """The clock of all processes that have its `environment`."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        self._library = folder / "clock.so"
        self._ms = 0
        self._step_to(0)
        compiler = shutil.which("cc")
        if compiler is not None:
            source = folder / "clock.c"
            source.write_text(_SOURCE, encoding="ascii")
            command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source)]
            done = subprocess.run(command, check=False, capture_output=True)
            self.there = done.returncode == 0
        else:
            self.there = False

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that is to have this clock, none where it cannot be made."""
        return {"LD_PRELOAD": str(self._library), "STORM_CLOCK": str(self._offset)} if self.there else {}

    def step(self, seconds: float) -> None:
        """Set the clock forward, or back where `seconds` are negative."""
        self._ms += round(seconds * 1000)
        self._step_to(self._ms)

    def _step_to(self, milliseconds: int) -> None:
        # In place: the processes have mapped the file.
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("=q", milliseconds))
