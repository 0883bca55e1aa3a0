package host

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"rigs/internal/serverapi"
)

// Facts describes the host. diskDir is where machines write; the figure is of the nearest
// directory that exists.
func Facts(diskDir string) serverapi.Host {
	return serverapi.Host{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		MemoryMB: memoryMB(), DiskFreeMB: DiskFreeMB(diskDir),
	}
}

// DiskFreeMB is the space that is free for us where dir is or will be, 0 if
// unknown.
func DiskFreeMB(dir string) int {
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err == nil {
			return int(st.Bavail * uint64(st.Bsize) >> 20)
		}
		i := strings.LastIndexByte(dir, '/')
		if i < 0 || dir == "/" {
			return 0
		}
		dir = dir[:max(i, 1)]
	}
}

// memoryMB is the host's memory, 0 if unknown.
func memoryMB() int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	return meminfo(f, "MemTotal")
}

// MemoryAvailableMB is what can still be used without swapping, 0 if unknown.
func MemoryAvailableMB() int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	return meminfo(f, "MemAvailable")
}

func meminfo(r io.Reader, name string) int {
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) >= 2 && f[0] == name+":" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				return 0
			}
			return kb >> 10
		}
	}
	return 0
}

// CPU is the processor's name, as far as it is known.
func CPU() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	return cpuName(f)
}

// cpuName takes model and stepping, which decide what a guest that sees the processor
// may rely on.
func cpuName(r io.Reader) string {
	var parts []string
	s := bufio.NewScanner(r)
	for s.Scan() {
		k, v, ok := strings.Cut(s.Text(), ":")
		if !ok {
			break // the end of the first processor
		}
		switch strings.TrimSpace(k) {
		case "vendor_id", "cpu family", "model", "model name", "stepping", "microcode":
			parts = append(parts, strings.TrimSpace(v))
		}
	}
	if len(parts) == 0 {
		return runtime.GOARCH
	}
	return strings.Join(parts, " ")
}
