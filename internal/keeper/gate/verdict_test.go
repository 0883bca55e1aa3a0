package gate

import (
	"net/netip"
	"testing"

	"rigs/internal/policy"
)

func mustList(t *testing.T, patterns ...string) policy.List {
	t.Helper()
	l, err := policy.ParseList(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestJudge(t *testing.T) {
	rules := mustList(t, "good.test", "*.wild.test", "git.test:22", "corp.test private", "both.test", "both.test:443 private")
	addr := netip.MustParseAddr
	tls := func(host string) opening { return opening{openingTLS, host} }
	http := func(host string) opening { return opening{openingHTTP, host} }
	for _, tc := range []struct {
		name string
		flow flow
		want string // reason; ReasonAdmitted means allowed
	}{
		{"admitted", flow{protocol: "tcp", host: "good.test", port: 443}, ReasonAdmitted},
		{"sub-domain", flow{protocol: "tcp", host: "a.b.wild.test", port: 80}, ReasonAdmitted},
		{"not its parent", flow{protocol: "tcp", host: "wild.test", port: 80}, ReasonNotAdmitted},
		{"other port", flow{protocol: "tcp", host: "good.test", port: 22}, ReasonPortNotAdmitted},
		{"SSH where the pattern says so", flow{protocol: "tcp", host: "git.test", port: 22}, ReasonAdmitted},
		{"only SSH then", flow{protocol: "tcp", host: "git.test", port: 443}, ReasonPortNotAdmitted},
		{"unknown", flow{protocol: "tcp", host: "evil.test", port: 443}, ReasonNotAdmitted},
		{"no name", flow{protocol: "tcp", address: addr("8.8.8.8"), port: 443}, ReasonRawAddress},
		{"UDP", flow{protocol: "udp", host: "good.test", port: 443}, ReasonProtocol},
		{"ICMP", flow{protocol: "icmp", host: "good.test"}, ReasonProtocol},
		{"no protocol", flow{host: "good.test", port: 443}, ReasonProtocol},
		{"zero", flow{}, ReasonProtocol},

		{"lookup", flow{protocol: "dns", host: "good.test"}, ReasonAdmitted},
		{"lookup of an SSH host", flow{protocol: "dns", host: "git.test"}, ReasonAdmitted},
		{"lookup of another", flow{protocol: "dns", host: "evil.test"}, ReasonNotAdmitted},

		{"public address", flow{protocol: "tcp", host: "good.test", port: 443, upstream: addr("1.2.3.4")}, ReasonAdmitted},
		{"private address", flow{protocol: "tcp", host: "good.test", port: 443, upstream: addr("10.0.0.1")}, ReasonForbiddenRange},
		{"private address, private pattern", flow{protocol: "tcp", host: "corp.test", port: 443, upstream: addr("10.0.0.1")}, ReasonAdmitted},
		{"metadata, private pattern", flow{protocol: "tcp", host: "corp.test", port: 80, upstream: addr("169.254.169.254")}, ReasonAdmitted},
		{"unspecified, private pattern", flow{protocol: "tcp", host: "corp.test", port: 80, upstream: addr("0.0.0.0")}, ReasonForbiddenRange},
		{"multicast, private pattern", flow{protocol: "tcp", host: "corp.test", port: 80, upstream: addr("224.0.0.1")}, ReasonForbiddenRange},
		{"private on this port only", flow{protocol: "tcp", host: "both.test", port: 80, upstream: addr("10.0.0.1")}, ReasonForbiddenRange},
		{"private on this port", flow{protocol: "tcp", host: "both.test", port: 443, upstream: addr("10.0.0.1")}, ReasonAdmitted},
		{"the host's own public address", flow{protocol: "tcp", host: "good.test", port: 443, upstream: addr("1.2.3.4"), own: true}, ReasonForbiddenRange},
		{"the host's own, private pattern", flow{protocol: "tcp", host: "corp.test", port: 443, upstream: addr("1.2.3.4"), own: true}, ReasonAdmitted},

		{"TLS", flow{protocol: "tcp", host: "good.test", port: 443, opening: tls("good.test")}, ReasonAdmitted},
		{"TLS without a name", flow{protocol: "tcp", host: "good.test", port: 443, opening: tls("")}, ReasonServerName},
		{"TLS for another", flow{protocol: "tcp", host: "good.test", port: 443, opening: tls("evil.test")}, ReasonServerName},
		{"TLS for another admitted one", flow{protocol: "tcp", host: "good.test", port: 443, opening: tls("a.wild.test")}, ReasonServerName},
		{"no TLS", flow{protocol: "tcp", host: "good.test", port: 443, opening: opening{kind: openingOther}}, ReasonServerName},
		{"HTTP on the TLS port", flow{protocol: "tcp", host: "good.test", port: 443, opening: http("good.test")}, ReasonServerName},
		{"HTTP", flow{protocol: "tcp", host: "good.test", port: 80, opening: http("good.test")}, ReasonAdmitted},
		{"HTTP for another", flow{protocol: "tcp", host: "good.test", port: 80, opening: http("evil.test")}, ReasonHTTPHost},
		{"HTTP for none", flow{protocol: "tcp", host: "good.test", port: 80, opening: http("")}, ReasonHTTPHost},
		{"TLS on the HTTP port", flow{protocol: "tcp", host: "good.test", port: 80, opening: tls("good.test")}, ReasonHTTPHost},
		{"anything by SSH", flow{protocol: "tcp", host: "git.test", port: 22, opening: opening{kind: openingOther}}, ReasonAdmitted},
	} {
		if v := judge(tc.flow, rules); v.reason != tc.want || v.allow != (tc.want == ReasonAdmitted) {
			t.Errorf("%s: %+v, want %s", tc.name, v, tc.want)
		}
		if v := judge(tc.flow, nil); v.allow {
			t.Errorf("%s: allowed by an empty list", tc.name)
		}
	}
}

// What is denied on partial knowledge is denied on more.
func TestJudgeIsMonotonic(t *testing.T) {
	rules := mustList(t, "good.test", "corp.test private")
	for _, host := range []string{"", "good.test", "corp.test", "evil.test"} {
		for _, port := range []int{22, 80, 443} {
			early := judge(flow{protocol: protoTCP, host: host, port: port}, rules)
			for _, a := range []string{"1.2.3.4", "10.0.0.1", "0.0.0.0"} {
				for _, o := range []opening{{}, {openingTLS, host}, {openingHTTP, host}, {openingOther, ""}} {
					late := judge(flow{protocol: protoTCP, host: host, port: port, upstream: netip.MustParseAddr(a), opening: o}, rules)
					if late.allow && !early.allow {
						t.Errorf("%s:%d at %s, %+v: allowed late", host, port, a, o)
					}
				}
			}
		}
	}
}

// E10, the table of it.
func TestClassify(t *testing.T) {
	for addr, want := range map[string]rangeKind{
		"1.2.3.4": rangePublic, "8.8.8.8": rangePublic, "100.63.255.255": rangePublic, "100.128.0.0": rangePublic, "172.15.0.1": rangePublic, "172.32.0.1": rangePublic,
		"2606:4700::1": rangePublic, "2a00:1450::1": rangePublic, "::ffff:8.8.8.8": rangePublic, "64:ff9b::8.8.8.8": rangePublic,

		"127.0.0.1": rangePrivate, "127.255.255.254": rangePrivate, "10.0.0.1": rangePrivate, "172.16.0.1": rangePrivate, "172.31.255.255": rangePrivate,
		"192.168.0.1": rangePrivate, "100.64.0.1": rangePrivate, "100.100.100.200": rangePrivate, "169.254.169.254": rangePrivate, "192.0.0.192": rangePrivate,
		"198.18.0.1": rangePrivate, "192.0.2.1": rangePrivate, "168.63.129.16": rangePrivate,
		"::ffff:10.0.0.1": rangePrivate, "::ffff:127.0.0.1": rangePrivate, "::ffff:169.254.169.254": rangePrivate, "64:ff9b::10.0.0.1": rangePrivate, "64:ff9b::7f00:1": rangePrivate,
		"64:ff9b:1::1": rangePrivate, "::1": rangePrivate, "::10.0.0.1": rangePrivate, "::8.8.8.8": rangePrivate, "fd00::1": rangePrivate, "fd00:ec2::254": rangePrivate,
		"fc00::1": rangePrivate, "fe80::1": rangePrivate, "fec0::1": rangePrivate, "2001:db8::1": rangePrivate, "2001::1": rangePrivate, "2002:7f00:1::": rangePrivate,
		"3fff::1": rangePrivate, "4000::1": rangePrivate,
		"2606:4700::5efe:10.0.0.1": rangePrivate, "2606:4700::200:5efe:127.0.0.1": rangePrivate, "2606:4700::5efe:8.8.8.8": rangePublic, "2606:4700::5eff:a00:1": rangePublic,

		"0.0.0.0": rangeNever, "0.1.2.3": rangeNever, "224.0.0.1": rangeNever, "255.255.255.255": rangeNever, "240.0.0.1": rangeNever,
		"::": rangeNever, "::ffff:0.0.0.0": rangeNever, "ff02::1": rangeNever, "100::1": rangeNever, "64:ff9b::0.0.0.0": rangeNever, "fe80::1%eth0": rangeNever, "2606:4700::1%eth0": rangeNever,
	} {
		if got := classify(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %d, want %d", addr, got, want)
		}
	}
}
