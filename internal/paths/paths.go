// Package paths builds every path that Rigs uses on disk, in one place.
//
// There are three roots. The cache holds what can be made again and is the same for
// every server of a host: images, kernels, templates; it is the data directory
// unless a setting says otherwise. The data directory holds what outlives a server, the
// database above all. The runtime directory holds sockets and the disks of
// running rigs, is 0700, and has a short name because the path of a Unix socket
// is limited to 104 bytes on some systems. It is derived from the data
// directory, so two data directories never share one.
package paths

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MaxSocket is the longest usable path of a Unix socket in bytes (macOS: 104
// with the final NUL; Linux allows 108).
const MaxSocket = 103

// Layout is where one server keeps its things. Make it with New.
type Layout struct {
	data    string
	cache   string
	runtime string
}

// New returns the layout for a data directory, which must be absolute or is
// made so. Nothing is created.
func New(dataDir string) (Layout, error) {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return Layout{}, fmt.Errorf("data directory %q: %w", dataDir, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	sum := sha256.Sum256([]byte(abs))
	return Layout{data: abs, cache: abs, runtime: filepath.Join(runtimeBase(), "rigs-"+hex.EncodeToString(sum[:4]))}, nil
}

// WithCache returns the layout with images, kernels, templates and probes kept in
// dir, which several servers may share.
func (l Layout) WithCache(dir string) (Layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("cache directory %q: %w", dir, err)
	}
	l.cache = abs
	return l, nil
}

// DefaultDataDir is RIGS_HOME, or /var/lib/rigs for root, or
// $XDG_DATA_HOME/rigs, or ~/.local/share/rigs. Root's own home directory is of
// no use: machines run as an unprivileged user who could not enter it.
func DefaultDataDir() (string, error) {
	if d := os.Getenv("RIGS_HOME"); d != "" {
		return d, nil
	}
	if os.Getuid() == 0 {
		return "/var/lib/rigs", nil
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "rigs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no data directory: %w: set RIGS_HOME", err)
	}
	return filepath.Join(home, ".local", "share", "rigs"), nil
}

func runtimeBase() string {
	if os.Getuid() == 0 {
		return "/run"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return d
	}
	return os.TempDir()
}

// Data is the data directory itself.
func (l Layout) Data() string { return l.data }

// Cache is the root of what can be made again.
func (l Layout) Cache() string { return l.cache }

// Lock is held by the one server of this data directory.
func (l Layout) Lock() string { return filepath.Join(l.data, "server.lock") }

// ID is the file with the data directory's random identity, the ownership mark
// of everything that its server starts.
func (l Layout) ID() string { return filepath.Join(l.data, "id") }

// Database is the SQLite database.
func (l Layout) Database() string { return filepath.Join(l.data, "rigs.db") }

// AuditKey is the key of the audit logs. It is not in the database, so that who
// has a copy of that cannot make rows.
func (l Layout) AuditKey() string { return filepath.Join(l.data, "audit.key") }

// EgressLogs holds the egress logs of rigs, of closed ones too.
func (l Layout) EgressLogs() string { return filepath.Join(l.data, "egress") }

// ServerSocket is where the server listens for its owner.
func (l Layout) ServerSocket() string { return filepath.Join(l.data, "rigs.sock") }

// ServerLog is the log of a server that runs in the background.
func (l Layout) ServerLog() string { return filepath.Join(l.data, "server.log") }

// Images is the root of the image store (see internal/image).
func (l Layout) Images() string { return filepath.Join(l.cache, "images") }

// Kernels holds kernels and their modules, by digest.
func (l Layout) Kernels() string { return filepath.Join(l.cache, "kernels") }

// Probes caches what probing the host found.
func (l Layout) Probes() string { return filepath.Join(l.cache, "probes") }

// Templates holds one directory for each template, named by its key.
func (l Layout) Templates() string { return filepath.Join(l.cache, "templates") }

// Template is the directory of one template.
func (l Layout) Template(key string) string { return filepath.Join(l.Templates(), key) }

// Disks holds the throwaway disks of running rigs, one directory each. They are
// in the data directory because the runtime directory is often in memory.
func (l Layout) Disks() string { return filepath.Join(l.data, "rigs") }

// Disk is one rig's directory for its throwaway disk and its logs.
func (l Layout) Disk(id string) string { return filepath.Join(l.Disks(), id) }

// Runtime is the 0700 directory for sockets.
func (l Layout) Runtime() string { return l.runtime }

// Rig is the runtime directory of one rig.
func (l Layout) Rig(id string) string { return filepath.Join(l.runtime, id) }

// KeeperSocket is where the keeper of a rig listens for its server.
func (l Layout) KeeperSocket(id string) string { return filepath.Join(l.Rig(id), "keeper") }

// UIDs is the directory in which the servers of this host that root runs note which
// uids they have handed out to rigs (see internal/server/sweep).
func UIDs() string { return "/run/rigs-uids" }

// CheckSocket returns an error that says what to do when path is too long for a
// Unix socket.
func CheckSocket(path string) error {
	if len(path) > MaxSocket {
		return fmt.Errorf("socket path %s: it has %d bytes and the system allows %d: choose a data directory with a shorter path (RIGS_HOME), or a shorter XDG_RUNTIME_DIR", path, len(path), MaxSocket)
	}
	return nil
}

// ErrUntrusted says that a directory for sockets is not ours alone.
var ErrUntrusted = errors.New("not a private directory of ours")

// MakePrivate makes dir with mode 0700, or checks that what is there is a real
// directory (no symlink), belongs to this user and is 0700. Somebody who
// planted it beforehand in a shared parent could otherwise read our sockets.
func MakePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || fi.Mode()&fs.ModeSymlink != 0 || !ok || int(st.Uid) != os.Getuid() || fi.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s: %w (mode %v): remove it and try again", dir, ErrUntrusted, fi.Mode())
	}
	return nil
}
