package collect

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

const (
	// mostAnswer is the largest answer that is read, in bytes.
	mostAnswer = 16 << 20
	// leastPause and mostPause bound the pause between two attempts at a server that does
	// not answer; each pause is twice the one before.
	leastPause = 5 * time.Second
	mostPause  = time.Minute
	// forgetAfter is how long an unused server is remembered.
	forgetAfter = time.Hour
)

// Prometheus queries servers, each with a limited number of queries at a time. A server that
// does not answer is left alone for a while, so that it does not delay other objects.
type Prometheus struct {
	limit int
	clock func() time.Time

	mu      sync.Mutex
	servers map[string]*server
}

type server struct {
	api    promv1.API
	active int
	used   time.Time
	pause  time.Duration // 0 = it answers
	again  time.Time     // the next attempt
	why    string
}

// NewPrometheus lets at most limit objects query a server at a time.
func NewPrometheus(limit int, clock func() time.Time) *Prometheus {
	return &Prometheus{limit: max(1, limit), clock: clock, servers: map[string]*server{}}
}

// transport is shared: the same addresses are queried repeatedly.
var transport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = 16, time.Minute
	return limited{t}
}()

// limited fails the reading of an answer that is too large.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{http.MaxBytesReader(nil, answer.Body, mostAnswer), answer.Body}
	}
	return answer, err
}

// enter takes a place at a server. The caller gives it back by leave, with the problem if
// the server did not answer.
func (p *Prometheus) enter(address string) (*server, error) {
	now := p.clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, s := range p.servers {
		if s.active == 0 && now.Sub(s.used) > forgetAfter {
			delete(p.servers, a)
		}
	}
	s := p.servers[address]
	if s == nil {
		client, err := api.NewClient(api.Config{Address: address, RoundTripper: transport})
		if err != nil {
			return nil, &Problem{Reason: "PrometheusAddress", Message: fmt.Sprintf("metrics.prometheus.address %q: %v", address, err)}
		}
		s = &server{api: promv1.NewAPI(client)}
		p.servers[address] = s
	}
	s.used = now
	switch {
	case s.pause > 0 && (now.Before(s.again) || s.active > 0): // one attempt at a time
		return nil, &Problem{Reason: "PrometheusUnreachable", Message: s.why}
	case s.active >= p.limit:
		return nil, ErrBusy
	}
	s.active++
	return s, nil
}

func (p *Prometheus) leave(s *server, silent *Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.active--
	if silent == nil {
		s.pause = 0
		return
	}
	if now := p.clock(); !now.Before(s.again) { // else another query has failed already
		s.pause = min(mostPause, max(leastPause, 2*s.pause))
		s.again = now.Add(s.pause)
	}
	s.why = silent.Message
}
