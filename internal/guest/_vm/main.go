package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/image/kernel"
	"rigs/internal/wire"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	dir := must(os.MkdirTemp("", "gvm"))
	defer os.RemoveAll(dir)
	early := "/var/cache/rigs-test/early"
	var mods []kernel.Module
	for _, n := range strings.Fields("virtio_ring virtio virtio_mmio virtio_blk virtio_console crc32c-intel libcrc32c overlay failover net_failover virtio_net virtio-rng virtio_balloon") {
		f := early + "/modules/" + n + ".ko"
		b, err := os.ReadFile(f)
		if err != nil {
			b = must(os.ReadFile(early + "/modules/" + strings.ReplaceAll(n, "-", "_") + ".ko"))
		}
		mods = append(mods, kernel.Module{Name: n, Data: b})
	}
	f := must(os.Create(dir + "/initrd"))
	if err := kernel.WriteInitramfs(f, must(os.ReadFile(os.Getenv("GUEST"))), mods); err != nil {
		panic(err)
	}
	f.Close()
	must(exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-b", early+"/blank.ext4", "-F", "raw", dir+"/w.qcow2", os.Getenv("SIZE")).CombinedOutput())
	append := "console=ttyS0 quiet reboot=t panic=-1 tsc_early_khz=" + tsc() + " tsc=reliable rigs.surface=terminal rigs.rootfs=ext4"
	if x := os.Getenv("APPEND"); x != "" {
		append += " " + x
	}
	args := []string{"-accel", "tcg,thread=multi,tb-size=256", "-M", "microvm,acpi=on,pit=off,pic=off,rtc=on", "-cpu", os.Getenv("CPU"), "-m", "512", "-smp", "2",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:" + dir + "/console",
		"-kernel", early + "/vmlinux", "-initrd", dir + "/initrd", "-append", append,
		"-drive", "if=none,id=r,file=" + early + "/rootfs.ext4,format=raw,readonly=on", "-device", "virtio-blk-device,drive=r",
		"-drive", "if=none,id=w,file=" + dir + "/w.qcow2,format=qcow2,cache=unsafe", "-device", "virtio-blk-device,drive=w",
		"-chardev", "socket,id=p,path=" + dir + "/port,server=on,wait=off",
		"-device", "virtio-serial-device", "-device", "virtserialport,chardev=p,name=" + guestapi.Port,
		"-netdev", "user,id=n,restrict=on", "-device", "virtio-net-device,netdev=n,host_mtu=65520",
		"-device", "virtio-rng-device", "-device", "virtio-balloon-device,free-page-reporting=on"}
	t0 := time.Now()
	q := exec.Command("qemu-system-x86_64", args...)
	q.Stderr = os.Stderr
	if err := q.Start(); err != nil {
		panic(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- q.Wait() }()
	defer func() {
		q.Process.Kill()
		c, _ := os.ReadFile(dir + "/console")
		fmt.Printf("--- console\n%s\n", c)
	}()
	connect := func() *wire.Mux {
		var c net.Conn
		var err error
		for range 1000 {
			if c, err = net.Dial("unix", dir+"/port"); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		t := time.Now()
		if err := wire.HostHandshake(c, 40*time.Second); err != nil {
			fmt.Println("handshake:", err)
			return nil
		}
		fmt.Printf("handshake %v (total %v)\n", time.Since(t), time.Since(t0))
		return must(wire.NewMux(c, true))
	}
	m := connect()
	fmt.Printf("   boot cpu %.2fs\n", cpu(q.Process.Pid))
	if m == nil {
		return
	}
	session := func(m *wire.Mux, first bool) {
		h := &http.Client{Transport: m.Transport()}
		call := func(method, path string, body any) {
			var rd io.Reader
			if body != nil {
				rd = bytes.NewReader(must(json.Marshal(body)))
			}
			t := time.Now()
			res, err := h.Do(must(http.NewRequest(method, "http://g"+path, rd)))
			if err != nil {
				fmt.Println(path, err)
				return
			}
			b, _ := io.ReadAll(res.Body)
			fmt.Printf("%s %s %v: %s %s\n", method, path, time.Since(t), res.Status, b)
		}
		call("GET", "/v1/hello", nil)
		if first {
			call("GET", "/v1/status", nil)
			call("POST", "/v1/quiesce", nil)
		}
		call("POST", "/v1/rekey", guestapi.Rekey{Entropy: bytes.Repeat([]byte{7}, 64), Time: time.Now(), HostName: "r-abc", MachineID: strings.Repeat("0a", 16), Secret: "s", Network: guestapi.Network{Address: "10.0.0.2/24", Gateway: "10.0.0.1", MTU: 65520}})
		run := func(r guestapi.ExecRequest, w io.Writer) {
			t, c0 := time.Now(), cpu(q.Process.Pid)
			defer func() { fmt.Printf("   cpu %.2fs\n", cpu(q.Process.Pid)-c0) }()
			c, err := wire.Dial(context.Background(), m.Dial, "g", "/v1/exec", nil)
			if err != nil {
				fmt.Println(err)
				return
			}
			st, err := guestapi.RunStream(context.Background(), c, r, guestapi.StreamIO{Stdout: w, Stderr: os.Stdout})
			fmt.Printf("exec %v: %+v %v\n", time.Since(t), st, err)
		}
		sh := func(s string) { fmt.Println("$", s); run(guestapi.ExecRequest{Shell: s}, os.Stdout) }
		sh("true")
		sh("true")
		for _, s := range os.Args[1:] {
			sh(s)
		}
		{
			run(guestapi.ExecRequest{Shell: "tty; ls -l $(tty); stty size; echo x > /dev/tty; sudo -n tty", TTY: true}, os.Stdout)
			c, err := wire.Dial(context.Background(), m.Dial, "g", "/v1/terminal", nil)
			if err != nil {
				panic(err)
			}
			t := time.Now()
			st, err := guestapi.RunStream(context.Background(), c, guestapi.TerminalRequest{Session: "main"}, guestapi.StreamIO{Stdin: strings.NewReader("shopt login_shell; echo $0 $PWD; ls -la ~; exit 3\n"), Stdout: os.Stdout})
			fmt.Println("terminal", st, err, time.Since(t))
			var tb bytes.Buffer
			tw := tar.NewWriter(&tb)
			for i := range 2000 {
				tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("many/%d/%d", i%20, i), Size: 1000, Mode: 0o644})
				tw.Write(make([]byte, 1000))
			}
			tw.Close()
			for range 2 {
				t, c0 := time.Now(), cpu(q.Process.Pid)
				res, err := h.Do(must(http.NewRequest("PUT", "http://g/v1/files?path=~", bytes.NewReader(tb.Bytes()))))
				fmt.Println("put 2000", res.Status, err, time.Since(t), cpu(q.Process.Pid)-c0)
				t, c0 = time.Now(), cpu(q.Process.Pid)
				res, err = h.Get("http://g/v1/files?path=many")
				n, _ := io.Copy(io.Discard, res.Body)
				fmt.Println("get 2000", res.Status, err, n, time.Since(t), cpu(q.Process.Pid)-c0)
			}
			sh("tar cf m.tar many; mkdir x; bash -c 'cd x; time tar xf ../m.tar' 2>&1; mkdir /dev/shm/y;  bash -c 'cd /dev/shm/y; time tar xf ~/m.tar' 2>&1")
			{
				t, c0 := time.Now(), cpu(q.Process.Pid)
				res, err := h.Do(must(http.NewRequest("PUT", "http://g/v1/files?path=/dev/shm/x", bytes.NewReader(tb.Bytes()))))
				fmt.Println("put 2000 shm", res.Status, err, time.Since(t), cpu(q.Process.Pid)-c0)
			}
			t, c0 := time.Now(), cpu(q.Process.Pid)
			tb.Reset()
			tw = tar.NewWriter(&tb)
			tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 100 << 20, Mode: 0o644})
			tw.Write(make([]byte, 100<<20))
			tw.Close()
			res, err := h.Do(must(http.NewRequest("PUT", "http://g/v1/files?path=~", bytes.NewReader(tb.Bytes()))))
			fmt.Println("put 100M", res.Status, err, time.Since(t), cpu(q.Process.Pid)-c0)
			t, c0 = time.Now(), cpu(q.Process.Pid)
			res, err = h.Get("http://g/v1/files?path=big")
			n, _ := io.Copy(io.Discard, res.Body)
			fmt.Println("get 100M", res.Status, err, n, time.Since(t), cpu(q.Process.Pid)-c0)
		}
		if first {
			for range 1 {
			t := time.Now()
			var n countWriter
			run(guestapi.ExecRequest{Shell: "dd if=/dev/zero bs=64k count=1600 2>/dev/null"}, &n)
			fmt.Printf("%d bytes, %.0f MB/s\n", n, float64(n)/1e6/time.Since(t).Seconds())
			}
			m.Close()
		}
	}
	session(m, true)
	if m = connect(); m == nil {
		return
	}
	
	h := &http.Client{Transport: m.Transport()}
	_, err := h.Post("http://g/v1/poweroff", "", nil)
	fmt.Println("poweroff", err)
	select {
	case e := <-exited:
		fmt.Println("qemu exited", e)
	case <-time.After(20 * time.Second):
		fmt.Println("qemu did not exit")
	}
	_ = filepath.Base
}

type countWriter int64

func (c *countWriter) Write(b []byte) (int, error) { *c += countWriter(len(b)); return len(b), nil }

func tsc() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "cpu MHz") {
			var f float64
			fmt.Sscan(strings.TrimSpace(strings.SplitN(l, ":", 2)[1]), &f)
			return fmt.Sprint(int(f * 1000))
		}
	}
	return "2600000"
}

func cpu(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
	var u, s float64
	fmt.Sscan(f[12], &u)
	fmt.Sscan(f[11], &s)
	return (u + s) / 100
}
