package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Longest window that a gate measures for a caller.
const Longest = 60 * time.Second

// Admin answers GET /limit, PUT /limit with a number, and GET /window?seconds=2 with the
// window from then on, as JSON. It belongs on loopback.
func (g *Gate) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /limit", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, g.Limit())
	})
	mux.HandleFunc("PUT /limit", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
		if err == nil {
			err = g.setText(string(text))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /window", func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
		if err != nil || !(seconds >= .01 && seconds <= Longest.Seconds()) {
			http.Error(w, fmt.Sprintf("seconds: %q, want .01 to %v", r.FormValue("seconds"), Longest.Seconds()), http.StatusBadRequest)
			return
		}
		window, err := g.Window(r.Context(), time.Duration(seconds*float64(time.Second)))
		switch {
		case errors.Is(err, ErrChanged):
			http.Error(w, err.Error(), http.StatusConflict)
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(window)
		}
	})
	return mux
}

func (g *Gate) setText(text string) error {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("limit: %q is no number", strings.TrimSpace(text))
	}
	return g.SetLimit(n)
}

// A Follower applies the limit of a file, as the downward API writes an annotation. An empty
// or missing file changes nothing; a text that is no limit changes nothing and is reported
// once until the text changes. Between changes of the text the limit may be set by others.
type Follower struct {
	gate   *Gate
	path   string
	told   func(error)
	before []byte
}

// Follower returns one of a file.
func (g *Gate) Follower(path string, told func(error)) *Follower {
	return &Follower{gate: g, path: path, told: told}
}

// mostText of a limit's file is read.
const mostText = 64

// Look looks once.
func (f *Follower) Look() {
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, mostText))
	if err != nil || len(bytes.TrimSpace(text)) == 0 || bytes.Equal(text, f.before) {
		return
	}
	f.before = text
	if err := f.gate.setText(string(text)); err != nil {
		f.told(fmt.Errorf("%s: %w; %d stays", f.path, err, f.gate.Limit()))
	}
}

// Follow looks every period until ctx ends.
func (f *Follower) Follow(ctx context.Context, period time.Duration) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		f.Look()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// Describe implements [prometheus.Collector].
func (g *Gate) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLimit, descInside, descWaiting, descBusy, descRequests} {
		to <- d
	}
	g.waited.Describe(to)
	g.took.Describe(to)
}

var (
	descLimit    = prometheus.NewDesc("sigma_gate_limit", "Requests that may be inside at once; 0 = any number.", nil, nil)
	descInside   = prometheus.NewDesc("sigma_gate_inside", "Requests inside.", nil, nil)
	descWaiting  = prometheus.NewDesc("sigma_gate_waiting", "Requests that wait before the pod.", nil, nil)
	descBusy     = prometheus.NewDesc("sigma_gate_inside_seconds_total", "Sum over all requests of their time inside.", nil, nil)
	descRequests = prometheus.NewDesc("sigma_gate_requests_total", "Requests by result: answered, failed by the pod, gone = the caller left, full and late = refused, left = the caller left while it waited.", []string{"result"}, nil)
)

// Collect implements [prometheus.Collector].
func (g *Gate) Collect(to chan<- prometheus.Metric) {
	inside, waiting, t := g.Now()
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	g.waited.Collect(to)
	g.took.Collect(to)
	gauge(descLimit, float64(g.Limit()))
	gauge(descInside, float64(inside))
	gauge(descWaiting, float64(waiting))
	to <- prometheus.MustNewConstMetric(descBusy, prometheus.CounterValue, t.Busy.Seconds())
	for _, r := range []struct {
		result string
		n      uint64
	}{{"answered", t.Answered}, {"failed", t.Failed}, {"gone", t.Gone}, {"full", t.Full}, {"late", t.Late}, {"left", t.Left}} {
		to <- prometheus.MustNewConstMetric(descRequests, prometheus.CounterValue, float64(r.n), r.result)
	}
}

var descUpgraded = prometheus.NewDesc("sigma_gate_upgraded", "Connections that were upgraded, such as WebSockets.", nil, nil)

// Describe implements [prometheus.Collector].
func (p *Proxy) Describe(to chan<- *prometheus.Desc) { to <- descUpgraded }

// Collect implements [prometheus.Collector].
func (p *Proxy) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(descUpgraded, prometheus.GaugeValue, float64(p.Upgraded()))
}
