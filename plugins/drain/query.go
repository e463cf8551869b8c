package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// queryEvery is the time between two queries, and queryTimeout how long an answer may take.
	queryEvery   = 15 * time.Second
	queryTimeout = 5 * time.Second
	// maxAnswer is the most bytes of an answer that are read.
	maxAnswer = 1 << 20
)

// A queryServer is the address of the one Prometheus for the queries of Rebalances; "" = no
// server.
type queryServer string

var errNoPrometheus = errors.New("the scheduler has no argument rebalancePrometheus")

// largest returns the largest value of the answer to an instant query.
func (p queryServer) largest(ctx context.Context, query string) (float64, error) {
	if p == "" {
		return 0, errNoPrometheus
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	address := strings.TrimSuffix(string(p), "/") + "/api/v1/query?" + url.Values{"query": {query}, "timeout": {queryTimeout.String()}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return 0, fmt.Errorf("the answer, with status %s, cannot be read: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("the server says: %.200s", answer.Error)
	}
	return largestOf(answer.Data.ResultType, answer.Data.Result)
}

// largestOf is the largest value of a vector or a scalar.
func largestOf(kind string, result json.RawMessage) (float64, error) {
	type sample [2]any // time, value
	var samples []sample
	switch kind {
	case "scalar":
		samples = make([]sample, 1)
		if err := json.Unmarshal(result, &samples[0]); err != nil {
			return 0, err
		}
	case "vector":
		var vector []struct{ Value sample }
		if err := json.Unmarshal(result, &vector); err != nil {
			return 0, err
		}
		for _, v := range vector {
			samples = append(samples, v.Value)
		}
	default:
		return 0, fmt.Errorf("the answer is a %s: want a vector or a scalar", kind)
	}
	if len(samples) == 0 {
		return 0, errors.New("the answer has no value")
	}
	most := math.Inf(-1)
	for _, s := range samples {
		text, _ := s[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(value) {
			return 0, fmt.Errorf("the answer has a value that is no number: %q", text)
		}
		most = max(most, value)
	}
	return most, nil
}
