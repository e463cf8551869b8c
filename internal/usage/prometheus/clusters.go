package prometheus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// clusterLabels name the cluster that a series is of, by the conventions of many: external labels of a
// Prometheus, and labels that agents and stores add.
var clusterLabels = []string{
	"cluster", "cluster_id", "cluster_name", "clusterID", "clusterName", "clustername", "k8s_cluster", "k8s_cluster_name",
	"kube_cluster", "kube_cluster_name", "kubernetes_cluster", "kubernetes_cluster_name",
}

// ofPlace are the labels that two series of one container have different values of: it was restarted, on this
// node or another, or two jobs scrape it.
var ofPlace = regexp.MustCompile(`(?i)^(__.*|id|name|image|uid|(k8s_|kube(rnetes)?_)?(node|host|instance|job|endpoint|service|hostname).*|exported_.*|(prometheus_)?replica|metrics_path|beta_.*|topology_.*|failure_domain_.*)$`)

const (
	// clustersQuery has the values of clusterLabels, each with its number of series.
	clustersQuery = `count by (%s) (last_over_time(container_memory_working_set_bytes{%s}[1h]))`
	// twiceQuery has the series of some containers that are in two cgroups at the same time.
	twiceQuery = `container_memory_working_set_bytes{%[1]s} and on (namespace, pod, container) topk(20, count by (namespace, pod, container) (count by (namespace, pod, container, id) (container_memory_working_set_bytes{%[1]s})) > 1)`
)

// A MixedError is the error for series of several clusters.
type MixedError struct {
	Server, Label string
	Values        []string // ascending; "" = series without the label
}

func (e *MixedError) Error() string {
	quoted := make([]string, len(e.Values))
	for i, v := range e.Values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%s has the pods of several clusters, by the label %s %s", e.Server, e.Label, strings.Join(quoted, ", "))
}

// A survey counts the series of a day, and the values of the labels of clusters.
type survey struct {
	most int                        // series at a time
	seen map[string]map[string]bool // values by label, of all servers, without the empty one
}

// survey looks at a server at some times of a day. Values count as of several clusters if they are there at
// two times at least: a label that was changed on that day has both values at one time at most.
func (v *survey) survey(ctx context.Context, s *server, begin time.Time, match string) error {
	named, err := Matchers(match)
	if err != nil {
		return err
	}
	times, mixed := 0, map[string]int{}
	values := map[string]map[string]bool{}
	for at := begin.Add(day / 4); !at.After(begin.Add(day)); at = at.Add(day / 4) {
		counts, err := s.at(ctx, fmt.Sprintf(clustersQuery, strings.Join(clusterLabels, ", "), selector(match)), at)
		if err != nil {
			return err
		}
		if len(counts) == 0 {
			continue
		}
		twice, err := s.at(ctx, fmt.Sprintf(twiceQuery, selector(match)), at)
		if err != nil {
			return err
		}
		all, now := 0, map[string]map[string]bool{}
		for _, c := range counts {
			all += int(c.Value)
			for _, label := range clusterLabels {
				note(now, label, string(c.Metric[model.LabelName(label)]))
			}
		}
		differing(now, twice)
		v.most, times = max(v.most, all), times+1
		for label, list := range now {
			for value := range list {
				note(values, label, value)
			}
			if len(list) > 1 {
				mixed[label]++
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(named, label) {
			continue
		}
		if n := mixed[label]; n > 0 && n >= min(2, times) {
			return &MixedError{s.name, label, slices.Sorted(maps.Keys(values[label]))}
		}
		for value := range values[label] { // of another server it may be another cluster
			if value != "" && slices.Contains(clusterLabels, label) && mixed[label] == 0 {
				note(v.seen, label, value)
			}
		}
		if list := v.seen[label]; len(list) > 1 {
			return &MixedError{"the Prometheis together: " + s.name, label, slices.Sorted(maps.Keys(list))}
		}
	}
	return nil
}

func note(in map[string]map[string]bool, label, value string) {
	if in[label] == nil {
		in[label] = map[string]bool{}
	}
	in[label][value] = true
}

// differing adds the values of labels in which the series of one container differ, restarts apart.
func differing(to map[string]map[string]bool, series model.Vector) {
	first := map[containerName]model.Metric{}
	for _, s := range series {
		name := nameOf(s.Metric)
		one, ok := first[name]
		if !ok {
			first[name] = s.Metric
			continue
		}
		for _, m := range []model.Metric{one, s.Metric} {
			for label := range m {
				if one[label] != s.Metric[label] && !ofPlace.MatchString(string(label)) {
					note(to, string(label), string(one[label]))
					note(to, string(label), string(s.Metric[label]))
				}
			}
		}
	}
}

// selector are the matchers of cAdvisor's series of containers.
func selector(match string) string { return also(`container!="",container!="POD",pod!=""`, match) }

// also adds matchers to others.
func also(matchers, match string) string {
	if match = strings.TrimSuffix(strings.TrimSpace(match), ","); match != "" {
		matchers += "," + match
	}
	return matchers
}

// oneMatcher is a matcher with the comma after it, or the end.
var oneMatcher = regexp.MustCompile("^\\s*([a-zA-Z_]\\w*)\\s*(=~|!~|!=|=)\\s*(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`[^`]*`)\\s*(?:,|$)")

// Matchers are the names of the labels in matchers of PromQL without their braces, such as
// cluster="a",env!="test". Other text is an error.
func Matchers(text string) (labels []string, err error) {
	for rest := text; strings.TrimSpace(rest) != ""; {
		m := oneMatcher.FindStringSubmatch(rest)
		if m == nil {
			return nil, errors.New(`want matchers of PromQL without their braces, such as cluster="a"`)
		}
		if strings.HasSuffix(m[2], "~") {
			if _, err := regexp.Compile(m[3][1 : len(m[3])-1]); err != nil {
				return nil, err
			}
		}
		labels, rest = append(labels, m[1]), rest[len(m[0]):]
	}
	return labels, nil
}
