// Package prometheustest has a handler that answers the queries of package prometheus as a
// Prometheus does that scrapes made-up pods.
package prometheustest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// step is the time between samples, in seconds.
const step = 300

// A Fake answers from functions of time. Its fields may change between requests.
type Fake struct {
	Series   []Series
	Owners   []map[string]string // labels, and the "metric", of kube-state-metrics
	Limit    int                 // samples in an answer; 0 = any number
	Asked    atomic.Int64        // queries
	Refused  atomic.Int64
	Warning  string // with each answer; "" = none
	Null     bool   // an entry null in each answer
	Answered func() // after each range query; may be nil
	// Clock is the time of queries without one, in seconds since 1970; nil = 0.
	Clock func() int64
}

// A Series is the use of a container.
type Series struct {
	Namespace, Pod, Container string
	// CPU and Memory are those of the five minutes that begin so many times five minutes after
	// 1970; [None] = no sample.
	CPU, Memory func(step int64) float64
	// Labels are more labels, such as the cluster; ID is that of the cgroup, of the names if empty.
	Labels map[string]string
	ID     string
}

// With is a series with more labels.
func With(s Series, labels map[string]string) Series {
	s.Labels = labels
	return s
}

// labels are those that a Prometheus stores.
func (s *Series) labels() map[string]string {
	all := map[string]string{"namespace": s.Namespace, "pod": s.Pod, "container": s.Container, "id": cmp.Or(s.ID, "/kubepods/"+s.Pod+"/"+s.Container)}
	maps.Copy(all, s.Labels)
	return all
}

var (
	matcher = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)
	by      = regexp.MustCompile(`by \(([^)]*)\)`)
)

// selected reports whether the labels match all matchers of a query.
func selected(labels map[string]string, query string) bool {
	for _, m := range matcher.FindAllStringSubmatch(query, -1) {
		ok := labels[m[1]] == m[3]
		if strings.HasSuffix(m[2], "~") {
			ok = regexp.MustCompile("^(?:" + m[3] + ")$").MatchString(labels[m[1]])
		}
		if ok == strings.HasPrefix(m[2], "!") {
			return false
		}
	}
	return true
}

// kept are the labels that the first "by" of a query keeps.
func kept(labels map[string]string, query string) map[string]string {
	out := map[string]string{}
	if m := by.FindStringSubmatch(query); m != nil {
		for name := range strings.SplitSeq(m[1], ", ") {
			if labels[name] != "" {
				out[name] = labels[name]
			}
		}
	}
	return out
}

// Of is a series, in short.
func Of(namespace, pod, container string, cpu, memory func(step int64) float64) Series {
	return Series{Namespace: namespace, Pod: pod, Container: container, CPU: cpu, Memory: memory}
}

// None is no sample.
const None = -1

// Always is a use that does not change.
func Always(v float64) func(int64) float64 { return func(int64) float64 { return v } }

// ServeHTTP answers the API of Prometheus.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Asked.Add(1)
	query := r.FormValue("query")
	seconds := func(name string) int64 {
		v, _ := strconv.ParseFloat(r.FormValue(name), 64)
		return int64(v)
	}
	if strings.HasSuffix(r.URL.Path, "/query") {
		f.instant(w, query, seconds("time"))
		return
	}
	start, end := seconds("start"), seconds("end")
	if n := len(f.Series) * int((end-start)/step+1); f.Limit > 0 && n > f.Limit {
		f.Refused.Add(1)
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`)
		return
	}
	names, sums := f.sums(query, start, end)
	result := []any{}
	for _, name := range names {
		var values []any
		for _, at := range slices.Sorted(maps.Keys(sums[name])) {
			values = append(values, []any{at, strconv.FormatFloat(sums[name][at], 'g', -1, 64)})
		}
		if values != nil {
			result = append(result, map[string]any{"metric": json.RawMessage(name), "values": values})
		}
	}
	f.respond(w, "matrix", result)
	if f.Answered != nil {
		f.Answered()
	}
}

// sums are the values of a query of use from a time on up to another, by labels as JSON, which has them in order.
func (f *Fake) sums(query string, start, end int64) (names []string, sums map[string]map[int64]float64) {
	memory := strings.Contains(query, "max_over_time")
	sums = map[string]map[int64]float64{}
	for i := range f.Series {
		s := &f.Series[i]
		labels := s.labels()
		if !selected(labels, query) {
			continue
		}
		of := s.CPU
		if memory {
			of = s.Memory
		}
		key, _ := json.Marshal(kept(labels, query))
		name := string(key)
		if sums[name] == nil {
			sums[name] = map[int64]float64{}
			names = append(names, name)
		}
		for at := start; at <= end; at += step {
			v := of(at/step - 1)
			old, there := sums[name][at]
			switch {
			case v == None:
			case there && memory:
				sums[name][at] = max(old, v)
			case there:
				sums[name][at] = old + v
			default:
				sums[name][at] = v
			}
		}
	}
	return names, sums
}

func (f *Fake) instant(w http.ResponseWriter, query string, at int64) {
	result := []any{}
	if at == 0 && f.Clock != nil {
		at = f.Clock()
	}
	if strings.Contains(query, "max_over_time") || strings.Contains(query, "rate(") {
		names, sums := f.sums(query, at, at)
		for _, name := range names {
			if v, ok := sums[name][at]; ok {
				result = append(result, map[string]any{"metric": json.RawMessage(name), "value": []any{at, strconv.FormatFloat(v, 'g', -1, 64)}})
			}
		}
		f.respond(w, "vector", result)
		return
	}
	if strings.HasPrefix(query, "count by") {
		counts := map[string]int{}
		for i := range f.Series {
			if labels := f.Series[i].labels(); selected(labels, query) {
				key, _ := json.Marshal(kept(labels, query))
				counts[string(key)]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			result = append(result, map[string]any{"metric": json.RawMessage(name), "value": []any{at, strconv.Itoa(counts[name])}})
		}
		f.respond(w, "vector", result)
		return
	}
	if strings.Contains(query, " and on ") { // the series of containers with several ids
		ids := map[string]map[string]bool{}
		for _, s := range f.Series {
			if labels := s.labels(); selected(labels, query) {
				name := s.Namespace + "/" + s.Pod + "/" + s.Container
				if ids[name] == nil {
					ids[name] = map[string]bool{}
				}
				ids[name][labels["id"]] = true
			}
		}
		for _, s := range f.Series {
			if labels := s.labels(); selected(labels, query) && len(ids[s.Namespace+"/"+s.Pod+"/"+s.Container]) > 1 {
				result = append(result, map[string]any{"metric": labels, "value": []any{at, "1"}})
			}
		}
		f.respond(w, "vector", result)
		return
	}
	for _, o := range f.Owners {
		if strings.Contains(query, o["metric"]+"{") && selected(withController(o), query) {
			labels := maps.Clone(o)
			maps.DeleteFunc(labels, func(name, _ string) bool {
				return name == "metric" || !slices.Contains(strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(" (),", r) }), name)
			})
			result = append(result, map[string]any{"metric": labels, "value": []any{at, "1"}})
		}
	}
	f.respond(w, "vector", result)
}

// withController has the label of owners that are controllers, as all of a fake are.
func withController(owner map[string]string) map[string]string {
	labels := maps.Clone(owner)
	labels["owner_is_controller"] = "true"
	return labels
}

func (f *Fake) respond(w http.ResponseWriter, kind string, result []any) {
	w.Header().Set("Content-Type", "application/json")
	if f.Null {
		result = append(result, nil)
	}
	answer := map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}}
	if f.Warning != "" {
		answer["warnings"] = []string{f.Warning}
	}
	_ = json.NewEncoder(w).Encode(answer)
}
