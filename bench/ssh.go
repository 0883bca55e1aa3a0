package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"rigs/client"
)

const (
	rowExec = "warm exec of `true`, a whole `rigs exec` process"
	rowSSH  = "`ssh` of `true` to the same guest, a connection each"
)

// installSSH unpacks this host's openssh-server package, which must be of the image's
// release, in the rig: copied in, so that the rig need not reach a mirror.
func installSSH(ctx context.Context, b *bench, id string) error {
	debs := filepath.Join(b.dir, "debs")
	if err := os.Mkdir(debs, 0o755); err != nil {
		return err
	}
	get := exec.CommandContext(ctx, "apt-get", "-o", "APT::Sandbox::User=root", "download", "openssh-server", "libwrap0")
	get.Dir = debs
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w: %s", err, tail(string(out)))
	}
	if err := b.command(ctx, "cp", debs, id+":/tmp/").Run(); err != nil {
		return fmt.Errorf("copy the packages in: %w", err)
	}
	res, err := b.Run(ctx, id, client.ExecCollect{ExecRequest: client.ExecRequest{Root: true,
		Shell: "(dpkg --force-depends --unpack /tmp/debs/*.deb && useradd --system --home /run/sshd --shell /usr/sbin/nologin sshd && mkdir -p /run/sshd && ssh-keygen -A && cp -n /usr/share/openssh/sshd_config /etc/ssh/ && /usr/sbin/sshd -t) 2>&1"}})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("status %d: %s", res.Code, tail(string(res.Stdout)))
	}
	return err
}

// measureSSH installs a real sshd in the rig and runs `true` through it. A rig has no way in but the agent's channel, so ssh goes through a
// `rigs exec` to an sshd on its standard input and output; the second row takes
// that start and the handshake out by sharing one connection.
func measureSSH(ctx context.Context, b *bench, id string, rep *report) error {
	if err := installSSH(ctx, b, id); err != nil {
		return fmt.Errorf("cannot install sshd in the rig: %w", err)
	}
	key := filepath.Join(b.dir, "key")
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	pub, err := os.ReadFile(key + ".pub")
	if err != nil {
		return err
	}
	res, err := b.Run(ctx, id, client.ExecCollect{Input: pub, ExecRequest: client.ExecRequest{Stdin: true,
		Shell: "umask 077 && mkdir -p ~/.ssh && cat > ~/.ssh/authorized_keys && sudo sed -i 's/^rig:!*:/rig:*:/' /etc/shadow"}})
	if err != nil || res.Code != 0 {
		return fmt.Errorf("authorized_keys: %w %s", err, res.Stderr)
	}
	opts := []string{"-F", "/dev/null", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=" + filepath.Join(b.dir, "known_hosts"), "-o", "LogLevel=ERROR", "-o", "BatchMode=yes",
		"-o", fmt.Sprintf("ProxyCommand='%s' exec --root -i %s -- /usr/sbin/sshd -i", b.rigs, id)}
	ssh := func(extra ...string) error {
		c := exec.CommandContext(ctx, "ssh", append(append(append([]string{}, opts...), extra...), "rig@"+id, "true")...)
		c.Env = b.env
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("ssh: %w: %s", err, tail(string(out)))
		}
		return nil
	}
	each, err := times(max(3, *repeat/2), 1000, func() error { return ssh() })
	if err != nil {
		return err
	}
	rep.add(rowSSH, "ms", "", each...)
	rep.add("exec ÷ ssh", "", "≤ 0.5", rep.median(rowExec)/rep.median(rowSSH))
	shared := []string{"-o", "ControlMaster=auto", "-o", "ControlPath=" + filepath.Join(b.dir, "mux"), "-o", "ControlPersist=60"}
	if err := ssh(shared...); err != nil { // opens the connection
		return err
	}
	mux, err := times(2**repeat, 1000, func() error { return ssh(shared...) })
	if err != nil {
		return err
	}
	rep.add("`ssh` of `true` over one shared connection", "ms", "", mux...)
	return exec.CommandContext(ctx, "ssh", "-F", "/dev/null", "-o", "ControlPath="+filepath.Join(b.dir, "mux"), "-O", "exit", "rig@"+id).Run()
}

// tail is the end of what a program said, for an error.
func tail(s string) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-400):]
}
