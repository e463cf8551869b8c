package gate

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Proxy passes requests on to a server: HTTP/1.1 as that, with upgrades, and HTTP/2 without
// TLS, and so gRPC, as that. It adds the caller to X-Forwarded-For and leaves Host as it is.
// A server that cannot be reached is 502.
func Proxy(target string, failed func(error)) (http.Handler, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	if to.Scheme != "http" || to.Host == "" || to.User != nil || to.RawQuery != "" || to.Fragment != "" {
		return nil, fmt.Errorf("%q: want http://HOST:PORT", target)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} { // of the proxy before
				if value := r.In.Header[name]; value != nil {
					r.Out.Header[name] = value
				}
			}
		},
		Transport:  newTransport(),
		BufferPool: &buffers{},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil && failed != nil {
				failed(err)
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}, nil
}

// buffers that answers are copied through, which are otherwise garbage after each.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return kept[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferBytes {
		b.pool.Put((*[bufferBytes]byte)(buffer))
	}
}

// idle is how long a connection to the server is kept without requests. Servers close idle
// connections after a few seconds; a request with a body that is written just then is lost.
const idle = time.Second

// A transport speaks to the server what the caller speaks.
type transport struct{ one, two http.RoundTripper }

func newTransport() *transport {
	make := func(set func(*http.Protocols)) http.RoundTripper {
		p := new(http.Protocols)
		set(p)
		return &http.Transport{
			Protocols: p, DisableCompression: true, MaxIdleConnsPerHost: MostLimit, IdleConnTimeout: idle,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		}
	}
	return &transport{
		one: make(func(p *http.Protocols) { p.SetHTTP1(true) }),
		two: make(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }),
	}
}

// errVersion is of no caller: the server has no other version.
var errVersion = errors.New("neither HTTP/1 nor HTTP/2")

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.ProtoMajor {
	case 1:
		return t.one.RoundTrip(r)
	case 2:
		return t.two.RoundTrip(r)
	}
	return nil, errVersion
}
