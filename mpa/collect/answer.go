package collect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// short shortens a server's answer for this program's log.
func short(cause error) string {
	const most = 300
	text := fmt.Sprint(cause)
	return text[:min(len(text), most)]
}

// promAnswer has a reason and a message if there is no vector. Both are this program's own
// words: a user who may create an object need not be allowed to see the answers of servers.
// The cause has the server's words.
type promAnswer struct {
	vector          model.Vector
	reason, message string
	cause           error
}

// silent reports whether the server did not answer.
func (a *promAnswer) silent() bool {
	return a.reason == "PrometheusUnreachable" || a.reason == "PrometheusTimeout"
}

// evaluate queries an expression at the server's present time.
func evaluate(ctx context.Context, api promv1.API, expression string) promAnswer {
	value, warnings, err := api.Query(ctx, expression, time.Time{})
	if err != nil {
		reason, message := explain(ctx, err)
		return promAnswer{reason: reason, message: message, cause: err}
	}
	// Until Prometheus 2.54, notes arrive as warnings, for example that a name is not a
	// counter's.
	warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "PromQL info: ") })
	if len(warnings) > 0 {
		// A part of the data is missing, for example.
		return promAnswer{
			reason: "QueryWarning", message: "Prometheus answers with a warning; ask it the same to see which",
			cause: errors.New(strings.Join(warnings, "; ")),
		}
	}
	switch v := value.(type) {
	case model.Vector:
		if slices.Contains(v, nil) {
			return promAnswer{reason: "PrometheusGarbled", message: "what answers is not Prometheus: its answer has a series that is null"}
		}
		return promAnswer{vector: v}
	case *model.Scalar:
		return promAnswer{vector: model.Vector{{Metric: model.Metric{}, Value: v.Value, Timestamp: v.Timestamp}}}
	default:
		return promAnswer{reason: "QueryInvalid", message: fmt.Sprintf("its answer is a %s, want an instant vector: is a function around a range missing?", value.Type())}
	}
}

// explain translates an error for the people who wrote the query or run the server.
func explain(ctx context.Context, err error) (reason, message string) {
	var large *http.MaxBytesError
	var no *refused
	var transport *url.Error
	switch {
	case errors.As(err, &large):
		return "QueryFailed", fmt.Sprintf("its answer is larger than %d KiB: sum or max over its series", large.Limit>>10)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return "PrometheusTimeout", "Prometheus did not answer in time"
	case errors.As(err, &no):
		return no.explain()
	case errors.As(err, &transport):
		return "PrometheusUnreachable", "Prometheus cannot be reached: " + unreachable(err)
	default:
		return "PrometheusGarbled", "what answers is not Prometheus, or breaks off"
	}
}

// ExplainHistory translates an error of reading a history, without the words of a server.
func ExplainHistory(ctx context.Context, err error) string {
	if answer, ok := errors.AsType[*promv1.Error](err); ok {
		for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			if strings.Contains(answer.Msg, fmt.Sprint(code)) {
				_, message := (&refused{code: code}).explain()
				return message
			}
		}
		return fmt.Sprintf("Prometheus answers with an error (%s); the recommender's log says more", answer.Type)
	}
	_, message := explain(ctx, err)
	return message
}

func (r *refused) explain() (reason, message string) {
	switch {
	case r.code == http.StatusBadRequest:
		return "QueryInvalid", "Prometheus refuses it with status code 400; ask it the same to see why"
	case r.code == http.StatusUnauthorized || r.code == http.StatusForbidden:
		return "PrometheusRefused", fmt.Sprintf("Prometheus answers with status code %d: the recommender's credentials for it are missing or wrong", r.code)
	case r.code/100 == 3:
		return "PrometheusRefused", fmt.Sprintf("Prometheus answers with status code %d, and redirects are not followed: the recommender's list of servers has to have the final URL", r.code)
	default:
		return "QueryFailed", fmt.Sprintf("Prometheus answers with status code %d", r.code)
	}
}

// unreachable returns the reason that there was no answer, unless it is in the words of
// another program at that address.
func unreachable(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op.Error()
	}
	return "the recommender's log says why"
}
