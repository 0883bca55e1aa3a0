package gate

import (
	"testing"
)

func TestCounters(t *testing.T) {
	p := newPeer(t, "good.test:7", "gone.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	open := p.mustConnect("good.test", 7)
	roundTrip(t, open, "hello")
	over := p.mustConnect("good.test", 7)
	roundTrip(t, over, "12345678")
	over.CloseWrite()
	mustEnd(t, over)
	p.log.reason(t, ReasonClosed, "good.test")
	p.mustRefuseName("evil.test", 443)
	p.mustRefuse("8.8.8.8:443")
	p.mustRefuseName("gone.test", 7)
	p.log.reason(t, ReasonLookupFailed, "gone.test")
	p.inject(pingFrame("8.8.8.8"))
	p.log.wait(t, "the ping", func(e rigEvent) bool { return e.Protocol == protoICMP })
	c := p.gate.Counters()
	// The lookup of evil.test is one refusal, the connection another.
	if c.Admitted != 2 || c.BytesOut != 13 || c.BytesIn != 13 || c.Lookups != 4 || c.Refused[ReasonNotAdmitted] != 2 ||
		c.Refused[ReasonRawAddress] != 1 || c.Refused[ReasonProtocol] != 1 || c.Unreached[ReasonLookupFailed] != 1 || c.Dropped[dropICMP] != 1 {
		t.Errorf("%+v", c)
	}
	open.Close()
}
