// Command netprobe is the bench's program in a guest: it looks a name up with the
// gate, and times connections.
//
//	netprobe lookup NAME          prints the address that the gateway's DNS gives it
//	netprobe connect ADDRESS N    connects N times, one after the other, and prints
//	                              the microseconds that each took, a line each
//	netprobe refused ADDRESS N    the same, where each must be refused
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// gateway is the gate's address in every rig.
const gateway = "10.0.0.1:53"

// patience is how long anything may take.
const patience = 10 * time.Second

func main() {
	err := errors.New("usage: netprobe lookup NAME | connect ADDRESS N | refused ADDRESS N")
	switch a := os.Args[1:]; {
	case len(a) == 2 && a[0] == "lookup":
		err = lookup(a[1])
	case len(a) == 3 && (a[0] == "connect" || a[0] == "refused"):
		n, cerr := strconv.Atoi(a[2])
		if err = cerr; err == nil {
			err = connect(a[1], n, a[0] == "refused")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netprobe:", err)
		os.Exit(1)
	}
}

// lookup asks the gateway and nothing else: the guest's own /etc/hosts knows some
// names too.
func lookup(name string) error {
	c := &dns.Client{Timeout: patience}
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), gateway)
	if err != nil {
		return err
	}
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); ok {
			fmt.Println(a.A)
			return nil
		}
	}
	return fmt.Errorf("%s has no address: %v", name, r)
}

func connect(address string, n int, refused bool) error {
	d := net.Dialer{Timeout: patience}
	for range n {
		began := time.Now()
		c, err := d.DialContext(context.Background(), "tcp", address)
		took := time.Since(began)
		switch {
		case refused && errors.Is(err, syscall.ECONNREFUSED):
		case refused && err == nil:
			return fmt.Errorf("%s was not refused", address)
		case err != nil:
			return err
		}
		if c != nil {
			c.Close()
		}
		fmt.Println(took.Microseconds())
	}
	return nil
}
