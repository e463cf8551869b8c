package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// queryTimeout bounds the wait for one answer. Prometheus itself gives up after two minutes.
const queryTimeout = 150 * time.Second

// A server is a Prometheus, or another server with its API.
type server struct {
	name string // its URL without the password
	api  promv1.API
}

func newServer(address string) (*server, error) {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New("want http:// or https:// and a host")
	}
	if err != nil {
		return nil, fmt.Errorf("the URL of a Prometheus %q: %w", address, err)
	}
	client, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		return nil, fmt.Errorf("the URL of a Prometheus %q: %w", u.Redacted(), err)
	}
	return &server{u.Redacted(), promv1.NewAPI(client)}, nil
}

// span evaluates an expression at the end of each step from a time on, up to another.
func (s *server) span(ctx context.Context, query string, from, until time.Time) (model.Matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, warnings, err := s.api.QueryRange(ctx, query, promv1.Range{Start: from.Add(Step), End: until, Step: Step})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := partial(warnings); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	m, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s: it answers with a %s, not a matrix", s.name, value.Type())
	}
	return slices.DeleteFunc(m, func(s *model.SampleStream) bool { return s == nil }), nil
}

// at evaluates an expression at a time.
func (s *server) at(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, warnings, err := s.api.Query(ctx, query, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := partial(warnings); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	v, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s: it answers with a %s, not a vector", s.name, value.Type())
	}
	return slices.DeleteFunc(v, func(s *model.Sample) bool { return s == nil }), nil
}

// partial is an error for warnings, since a part of the data is missing then; until Prometheus 2.54 notes
// on an expression arrive as warnings, too.
func partial(warnings promv1.Warnings) error {
	for _, w := range warnings {
		if !strings.HasPrefix(w, "PromQL info: ") {
			return fmt.Errorf("it answers with a warning: %s", w)
		}
	}
	return nil
}

// tooLarge reports whether a server gave up on a query that it may answer in parts: its
// limits of samples, points, series, bytes or time have many texts, but few kinds.
func tooLarge(err error) bool {
	e, ok := errors.AsType[*promv1.Error](err)
	if !ok {
		return errors.Is(err, context.DeadlineExceeded)
	}
	if e.Type == promv1.ErrBadData { // a malformed query is of this kind too
		return strings.Contains(e.Msg, "exceeded")
	}
	large := func(code int) bool { return strings.Contains(e.Msg, fmt.Sprint(code)) }
	return e.Type == promv1.ErrExec || e.Type == promv1.ErrTimeout ||
		large(http.StatusRequestEntityTooLarge) || large(http.StatusUnprocessableEntity) || large(http.StatusServiceUnavailable) || large(http.StatusGatewayTimeout)
}

// inParts calls query with steps from first up to before last, in parts of at most size; one
// that is too large for the server is halved, with all later ones.
func inParts(ctx context.Context, first, last, size int, query func(first, last int) error) error {
	for first < last {
		end := min(last, first+size)
		err := query(first, end)
		switch {
		case err == nil:
			first = end
		case end-first > 1 && tooLarge(err) && ctx.Err() == nil:
			size = (end - first) / 2
		default:
			return err
		}
	}
	return nil
}
