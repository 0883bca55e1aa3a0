package gate

import "testing"

// E5: a head that servers could read in two ways names no host.
func TestHeadHasOneReading(t *testing.T) {
	for head, host := range map[string]string{
		"GET / HTTP/1.1\r\nHost: good.test":                                         "good.test",
		"GET / HTTP/1.0\r\nHost: good.test":                                         "good.test",
		"GET /?@evil.test HTTP/1.1\r\nHost: good.test":                              "good.test",
		"GET /\xff%00 HTTP/1.1\r\nHost:\tGOOD.test:80 ":                             "good.test",
		"GET HTTP://GOOD.test:80 HTTP/1.1\r\nHost: good.test":                       "good.test",
		"GET http://good.test/a?b HTTP/1.1\r\nHost: good.test":                      "good.test",
		"OPTIONS * HTTP/1.1\r\nHost: good.test":                                     "good.test",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 0":                   "good.test",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 10 ":                 "good.test",
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: CHUNKED\t":        "good.test",
		"GET http://good.test?@evil.test HTTP/1.1\r\nHost: good.test":               "",
		"GET http://good.test#@evil.test/ HTTP/1.1\r\nHost: good.test":              "",
		"GET http://good.test\\@evil.test/ HTTP/1.1\r\nHost: good.test":             "",
		"GET http:/good.test/ HTTP/1.1\r\nHost: good.test":                          "",
		"GET http:good.test HTTP/1.1\r\nHost: good.test":                            "",
		"GET http:///good.test HTTP/1.1\r\nHost: good.test":                         "",
		"GET http://good%2etest/ HTTP/1.1\r\nHost: good.test":                       "",
		"GET http://[good.test]/ HTTP/1.1\r\nHost: good.test":                       "",
		"GET http://good.test:80:80/ HTTP/1.1\r\nHost: good.test":                   "",
		"GET  / HTTP/1.1\r\nHost: good.test":                                        "",
		"GET /\tx HTTP/1.1\r\nHost: good.test":                                      "",
		"GET / HTTP/1.1 \r\nHost: good.test":                                        "",
		"GET / HTTP/1.2\r\nHost: good.test":                                         "",
		"G\vT / HTTP/1.1\r\nHost: good.test":                                        "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 010":                 "", // eight to some
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length:":                     "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5,5":                 "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length\v: 5":                 "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent_Length: 5":                   "", // the same to a gateway that makes variables of fields (RFC 3875 §4.1.18)
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer_Encoding: chunked":          "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked, chunked": "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: \vchunked":        "",
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: identity":         "",
		"GET / HTTP/1.1\r\nHost: good.test\r\n\vHost: evil.test":                    "",
		"GET / HTTP/1.1\r\nHost: good.test, evil.test":                              "",
		"GET / HTTP/1.1\r\nHost: good.test/":                                        "",
		"TRACE / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5":                  "", // RFC 9110 §9.3.8
	} {
		r, err := parseHead([]byte(head + "\r\n\r\n"))
		if got := r.opening.host; got != host || (err != nil) && host != "" {
			t.Errorf("%q is for %q, %v, want %q", head, got, err, host)
		}
	}
}
