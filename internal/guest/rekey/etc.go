//go:build linux

package rekey

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Etc edits the files of a system that name the machine.
type Etc struct{ Root string }

func (e Etc) path(name string) string { return filepath.Join(e.Root, "etc", name) }

// write replaces a file. A link is replaced, not followed: images have some
// that lead to a service which does not run here.
func (e Etc) write(path string, data string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".rigs"
	if err := os.WriteFile(tmp, []byte(data), mode); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(tmp, mode), os.Rename(tmp, path)); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// SetHostName writes /etc/hostname, and /etc/hosts so that the name resolves.
func (e Etc) SetHostName(name string) error {
	if err := e.write(e.path("hostname"), name+"\n", 0o644); err != nil {
		return err
	}
	old, err := os.ReadFile(e.path("hosts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return e.write(e.path("hosts"), hosts(string(old), name), 0o644)
}

// ownAddress is the address of the machine's own name in /etc/hosts, as Debian
// has it.
const ownAddress = "127.0.1.1"

// hosts replaces the machine's own line and adds those of localhost when they
// are missing; all others stay.
func hosts(old, name string) string {
	var out strings.Builder
	have := map[string]bool{}
	for line := range strings.Lines(old) {
		line = strings.TrimRight(line, "\n")
		addr, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		if addr == ownAddress {
			continue
		}
		have[addr] = true
		out.WriteString(line + "\n")
	}
	if !have["127.0.0.1"] {
		out.WriteString("127.0.0.1\tlocalhost\n")
	}
	if !have["::1"] {
		out.WriteString("::1\tlocalhost ip6-localhost ip6-loopback\n")
	}
	out.WriteString(ownAddress + "\t" + name + "\n")
	return out.String()
}

// SetMachineID writes /etc/machine-id, and D-Bus's where it is a copy.
func (e Etc) SetMachineID(id string) error {
	if err := e.write(e.path("machine-id"), id+"\n", 0o444); err != nil {
		return err
	}
	dbus := filepath.Join(e.Root, "var/lib/dbus/machine-id")
	if fi, err := os.Lstat(dbus); err == nil && fi.Mode().IsRegular() {
		return e.write(dbus, id+"\n", 0o444)
	}
	return nil
}

// SetResolver makes address the only name server.
func (e Etc) SetResolver(address string) error {
	return e.write(e.path("resolv.conf"), "nameserver "+address+"\n", 0o644)
}

// RemoveHostKeys removes SSH host keys: a template's would be those of every
// clone.
func (e Etc) RemoveHostKeys() error {
	keys, err := filepath.Glob(e.path("ssh/ssh_host_*"))
	if err != nil {
		return err
	}
	for _, k := range keys {
		err = errors.Join(err, os.Remove(k))
	}
	return err
}

// HasSSHServer says whether the image has an sshd, which then needs host keys.
func (e Etc) HasSSHServer() bool {
	_, err := os.Stat(filepath.Join(e.Root, "usr/sbin/sshd"))
	return err == nil
}
