package confine

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ABI is the kernel's version of Landlock's interface; 0 without Landlock.
func ABI() int {
	v, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// The layers. Signals and abstract sockets are scoped by whoever starts a keeper: a kernel
// before version 8 gives each thread of the keeper a domain of its own when they
// all restrict themselves, and the one that ends QEMU is not the one that started it.
// A keeper dials for its guest, to any port that was admitted, but never listens.
var (
	scopeLayer   = landlock.Config{Scoped: landlock.V11.Scoped}.BestEffort()
	keeperLayer  = landlock.Config{HandledAccessFS: landlock.V11.HandledAccessFS, HandledAccessNet: llsyscall.AccessNetBindTCP}.BestEffort()
	machineLayer = landlock.V11.BestEffort() // no network at all
)

// scope is for the calling thread.
func scope() error { return restrictThread(scopeLayer) }

func restrictKeeper(f Files) error {
	rules := append(f.rules(),
		landlock.RWDirs(f.Write...).IgnoreIfMissing(),
		landlock.RWDirs(f.Own...).IgnoreIfMissing(),
		landlock.ROFiles(network()...).IgnoreIfMissing(),
		landlock.RODirs("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/proc/self").IgnoreIfMissing(),
	)
	if err := keeperLayer.Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// restrictMachine is for the calling thread.
func restrictMachine(f Files) error {
	return restrictThread(machineLayer, append(f.rules(), landlock.RWDirs(f.Write...).IgnoreIfMissing())...)
}

func restrictThread(layer landlock.Config, rules ...landlock.Rule) error {
	fd, flags, err := layer.NewRulesetFD(rules...)
	if err == nil && fd >= 0 {
		err = llsyscall.LandlockRestrictSelf(fd, flags)
		_ = unix.Close(fd) // nothing was written to it
	}
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// system are directories of programs and libraries. Nothing in them is private.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}

// rules are what keeper and QEMU have in common.
func (f Files) rules() []landlock.Rule {
	rules := []landlock.Rule{
		landlock.RODirs(system...).IgnoreIfMissing(),
		landlock.RODirs(programDirs(f.Program)...).IgnoreIfMissing(),
		landlock.ROFiles(f.Program, "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/dev/urandom", "/dev/random", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat").IgnoreIfMissing(),
		landlock.RODirs("/etc/qemu", "/sys/devices/system", "/sys/kernel/mm").IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full").IgnoreIfMissing(),
		landlock.RWFiles("/dev/kvm").WithIoctlDev().IgnoreIfMissing(),
		// Not truncated and not made: a QEMU before 8.2 opens a template's memory for writing.
		landlock.PathAccess(llsyscall.AccessFSReadFile|llsyscall.AccessFSWriteFile, f.Map...).IgnoreIfMissing(),
	}
	for _, p := range f.Read {
		rules = append(rules, readable(p))
	}
	return rules
}

// readable is a rule for a file or a directory.
func readable(path string) landlock.Rule {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return landlock.RODirs(path)
	}
	return landlock.ROFiles(path).IgnoreIfMissing()
}

// programDirs are where a program that is not the system's has its libraries and
// data: beside its bin directory, or in the directory that it is in.
func programDirs(program string) []string {
	if program == "" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	dir := filepath.Dir(program)
	if filepath.Base(dir) != "bin" {
		return []string{dir}
	}
	prefix := filepath.Dir(dir)
	return []string{dir, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"), filepath.Join(prefix, "libexec"), filepath.Join(prefix, "share"), filepath.Join(prefix, "etc", "qemu")}
}

// network is what Go's resolver and its TLS read. The resolver's configuration is replaced
// by renaming when the host changes networks, and a rule belongs to the file that it was
// made for: so it is the directory that can be read. Where that is /etc itself,
// what is secret in there is up to its mode.
func network() []string {
	files := []string{"/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/protocols", "/etc/services", "/etc/mime.types", "/proc/sys/net/core/somaxconn"}
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		files = append(files, filepath.Dir(real))
	}
	for _, env := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		files = append(files, filepath.SplitList(os.Getenv(env))...)
	}
	return files
}
