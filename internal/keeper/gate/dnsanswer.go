package gate

import (
	"strings"

	"github.com/miekg/dns"

	"rigs/internal/rig"
)

const (
	dnsPort = 53

	// dnsTTL is short because answers are made up and may be forgotten.
	dnsTTL = 10

	// maxUDPAnswer is more than any answer here takes: one name, one address.
	maxUDPAnswer = 1232
)

// answerer answers lookups. It never asks anybody: a name gets a synthetic
// address whether the policy knows it or not, and what that address means is
// decided when the guest connects to it.
type answerer struct {
	gate *Gate
	note func(rig.EgressEvent) // logs a refusal
	may  func() bool           // rate limit
}

// answer returns the reply to one DNS message, nil for what does not deserve one.
func (a *answerer) answer(message []byte) []byte {
	// A response must never be answered: two such servers would talk for ever.
	if len(message) < 12 || message[2]&0x80 != 0 {
		return nil
	}
	a.gate.counters.lookups.Add(1)
	q := new(dns.Msg)
	if err := q.Unpack(message); err != nil {
		return pack(new(dns.Msg).SetRcodeFormatError(q))
	}
	r := new(dns.Msg).SetReply(q)
	r.RecursionAvailable = true
	if o := q.IsEdns0(); o != nil {
		r.SetEdns0(maxUDPAnswer, false)
	}
	switch {
	case q.Opcode != dns.OpcodeQuery:
		r.Rcode = dns.RcodeNotImplemented
		return pack(r)
	case len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET:
		r.Rcode = dns.RcodeRefused
		return pack(r)
	case !a.may():
		a.note(rig.EgressEvent{Reason: ReasonRateLimit, Protocol: protoDNS})
		r.Rcode = dns.RcodeRefused
		return pack(r)
	}
	question := q.Question[0]
	name, ok := lookupName(question.Name)
	if !ok {
		a.note(rig.EgressEvent{Reason: ReasonBadName, Protocol: protoDNS, Host: printable(question.Name)})
		r.Rcode = dns.RcodeNameError
		return pack(r)
	}
	v := judge(flow{protocol: protoDNS, host: name}, a.gate.rules())
	if !v.allow {
		a.note(rig.EgressEvent{Reason: v.reason, Protocol: protoDNS, Host: name})
	}
	// Only addresses, only IPv4. "No such record" for AAAA sends everybody to
	// IPv4 at once, and for HTTPS keeps browsers from encrypting the server name
	// with a key that the gate never saw.
	if question.Qtype == dns.TypeA {
		addr := a.gate.names.assign(name, v.allow)
		r.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: dnsTTL},
			A:   addr.AsSlice(),
		}}
	}
	return pack(r)
}

func pack(m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		return nil // only a question that cannot be repeated; the guest's own loss
	}
	return b
}

// lookupName brings a question's name into canonical form. More characters than
// in a host name are let through, because a name that carries data (base64, say)
// should end in a refused connection and a line in the log like any other.
func lookupName(name string) (string, bool) {
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	if n == "" || len(n) > 253 || strings.Contains(n, "..") {
		return "", false
	}
	for i := range len(n) {
		c := n[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.+/=", rune(c)) {
			return "", false // among them the backslash, with which the library escapes the rest
		}
	}
	return n, true
}

// printable makes a hostile name fit for a log.
func printable(name string) string {
	const most = 120
	n := strings.Map(func(r rune) rune {
		if r < 0x21 || r > 0x7e {
			return '?'
		}
		return r
	}, name)
	if len(n) > most {
		n = n[:most] + "..."
	}
	return n
}
