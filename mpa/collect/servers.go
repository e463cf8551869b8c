package collect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/share"
)

const (
	// leastPause and mostPause bound the pause between two attempts at a server that does
	// not answer; each pause is twice the one before.
	leastPause = 5 * time.Second
	mostPause  = time.Minute
)

// Prometheus queries the servers that the administrator allows, each with a limited number
// of queries at a time. A server that does not answer is left alone for a while, so that it
// does not delay other objects. One that only takes too long is left alone by the namespace whose queries
// those were, until the same happens to another one: an expression may be at fault.
type Prometheus struct {
	clock func() time.Time

	mu      sync.Mutex
	servers []*server
}

type server struct {
	*Server
	urls api.Client // only for the URLs of its API
	http *http.Client

	places *share.Places
	pauses map[string]*pause // by namespace; that of everybody has no name
	spoke  time.Time         // when a query last had an answer
}

// A pause is a time without queries at a server. It begins with a query that had no answer, and lasts
// until one has.
type pause struct {
	length time.Duration
	failed time.Time // the last attempt
	again  time.Time // the next one
	why    string
}

// everybody is the name of the pause of all namespaces.
const everybody = ""

// NewPrometheus lets at most limit objects query a server at a time, and each namespace no
// more than its share while others wait. It fails if a file of a server cannot be read.
func NewPrometheus(servers []Server, limit int, clock func() time.Time) (*Prometheus, error) {
	p := &Prometheus{clock: clock}
	for i := range servers {
		s, err := servers[i].open()
		if err != nil {
			return nil, fmt.Errorf("servers[%d] %q: %w", i, servers[i].Name, err)
		}
		s.places, s.pauses = share.New(limit, 0, clock), map[string]*pause{}
		p.servers = append(p.servers, s)
	}
	return p, nil
}

// find returns the server that an object names. Before there were names it had an address,
// which must be that of a server in the list.
func (p *Prometheus) find(o *v1alpha1.Prometheus) (*server, *Problem) {
	var names []string
	var found []*server
	for _, s := range p.servers {
		names = append(names, s.Name)
		if o.Server == s.Name || o.Server == "" && strings.TrimRight(o.Address, "/") == strings.TrimRight(s.URL, "/") {
			found = append(found, s)
		}
	}
	known := "it has " + strings.Join(names, ", ")
	if len(names) == 0 {
		known = "it has none"
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case o.Server != "":
		return nil, &Problem{Reason: "PrometheusServer", Message: fmt.Sprintf("metrics.prometheus.server: the recommender's list of servers has no %q: %s", o.Server, known)}
	default:
		// Without the address: it may have a password.
		return nil, &Problem{Reason: "PrometheusAddress", Message: "metrics.prometheus.address is not that of exactly one server in the recommender's list: replace it by metrics.prometheus.server with a name from there: " + known}
	}
}

// enter takes a place at a server. The caller gives it back by leave, with the problem if
// the server did not answer.
func (p *Prometheus) enter(namespace string, o *v1alpha1.Prometheus) (*server, error) {
	s, problem := p.find(o)
	if problem != nil {
		return nil, problem
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, active := range map[string]int{everybody: s.places.All(), namespace: s.places.Taken(namespace)} {
		if of := s.pauses[name]; of != nil && (p.clock().Before(of.again) || active > 0) { // one attempt at a time
			return nil, &Problem{Reason: "PrometheusUnreachable", Message: of.why}
		}
	}
	if !s.places.Enter(namespace) {
		return nil, ErrBusy
	}
	return s, nil
}

func (p *Prometheus) leave(s *server, namespace string, silent *Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.places.Leave(namespace)
	now := p.clock()
	if silent == nil {
		s.spoke = now
		if delete(s.pauses, namespace); s.pauses[everybody] != nil { // it is back
			clear(s.pauses)
		}
		return
	}
	of := []string{namespace}
	if silent.Reason != "PrometheusTimeout" || s.silentToOthers(namespace) {
		of = append(of, everybody)
	}
	for _, name := range of {
		at := s.pauses[name]
		if at == nil {
			at = &pause{}
			s.pauses[name] = at
		}
		if !now.Before(at.again) { // else another query has failed already
			at.length = min(mostPause, max(leastPause, 2*at.length))
			at.again = now.Add(at.length)
		}
		at.failed, at.why = now, silent.Message
	}
}

// silentToOthers reports whether another namespace had no answer either, and no answer has
// arrived since.
func (s *server) silentToOthers(namespace string) bool {
	for name, at := range s.pauses {
		if name != namespace && name != everybody && at.failed.After(s.spoke) {
			return true
		}
	}
	return false
}

// api returns the server's API, whose answers have at most the given number of bytes.
func (s *server) api(most int64) promv1.API {
	return promv1.NewAPI(bounded{s.urls, s.http, most, false})
}

// History returns the server that an object names, to read the use of many days from, and its
// API. Nobody waits for that: pauses and places of other queries do not count.
func (p *Prometheus) History(o *v1alpha1.Prometheus) (Server, promv1.API, *Problem) {
	s, problem := p.find(o)
	if problem != nil {
		problem.Source = History
		return Server{}, nil, problem
	}
	return *s.Server, promv1.NewAPI(bounded{s.urls, s.http, mostHistory, true}), nil
}

// mostHistory is the largest answer of a history in bytes: half a million samples are 15 MB.
const mostHistory = 64 << 20

// bounded reads answers of a limited size. The text of a failed answer is only in the error:
// it is not for authors of objects.
type bounded struct {
	api.Client
	http *http.Client
	most int64
	// refusals: an answer with another status code is no error here, so that the API parses it.
	refusals bool
}

func (b bounded) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, err := b.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, b.most))
	if err == nil && answer.StatusCode/100 != 2 && !b.refusals {
		err = &refused{answer.StatusCode, string(body)}
	}
	return answer, body, err
}

// refused is an answer with another status code than success.
type refused struct {
	code int
	body string
}

func (r *refused) Error() string { return fmt.Sprintf("status code %d: %s", r.code, r.body) }
