package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/cerebro/sized"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// UseOptions define how a snapshot counts pods by their use.
type UseOptions struct {
	JudgeDays int // the last days, which no size is fitted to
	LeastDays int // of history below which a workload counts by request
	// Renamed has the present name of workloads by their former one: namespace/kind/name.
	Renamed map[string]string
}

// A WorkloadUse is the use of the pods of one app of a trace, or of one DaemonSet.
type WorkloadUse struct {
	App, Group string
	Pods       int           // that are there, or wait
	Request    usage.Amounts // of one pod
	Size       usage.Size    // of one pod
	Fixed      bool          // of pods that are part of their nodes, such as those of a DaemonSet
}

// A UseReport explains a trace by use.
type UseReport struct {
	Workloads          []WorkloadUse // of the trace in its order, then the fixed ones by name
	Fitted, Judged     int           // days with samples
	First, From, Until time.Time     // of the fitted days, of the judged ones, and their end
	// Unknown is the share of the cpu used in the fitted days by pods whose workload is not known, Gone by those
	// whose workload has no pod now. Beyond is the share of the judged pods' time that was of more pods than there
	// are now, Partial that of the pods' time in which a container lacks its samples.
	Unknown, Gone, Beyond, Partial float64
	// Covered is the share of the time of the present pods in the judged days with samples, by resource the least.
	Covered float64
	Dropped prometheus.Dropped
	Cut     []sized.Cut // apps that count less than they use, as their nodes have no room
}

// ByUse returns a picture's trace with the effective sizes of its apps as demands, by the days
// of a record but the last ones, whose use is added to the trace and judges it: its time 0 is
// the beginning of these days. The trace given stays as it is.
func (p *Picture) ByUse(t *trace.Trace, rec *prometheus.Record, opt UseOptions) (*trace.Trace, *UseReport, error) {
	n := p.namer()
	if err := n.rename(opt.Renamed); err != nil {
		return nil, nil, err
	}
	rec.Most, rec.Runs = p.largestNode(), p.containers()
	from := rec.Until - int64(opt.JudgeDays)
	histories, err := rec.Histories(from, false, n.workload)
	if err != nil {
		return nil, nil, err
	}
	present, of := map[string][]prometheus.Pod{}, make([][]string, len(t.Instance.Apps)) // by workload; workloads by app
	for _, q := range t.Requests {
		namespace, name, _ := strings.Cut(q.Name, "/")
		pod := prometheus.Pod{Namespace: namespace, Name: name}
		workload := n.Pods[pod]
		present[workload] = append(present[workload], pod)
		if !slices.Contains(of[q.App], workload) {
			of[q.App] = append(of[q.App], workload)
		}
	}
	judged, err := rec.Judge(from, present, n.workload)
	if err != nil {
		return nil, nil, err
	}
	if err := n.unused(); err != nil {
		return nil, nil, err
	}
	by, sizes, cuts, err := sized.Measured(t, func(app int, request usage.Amounts) usage.Size {
		list := []usage.Size{usage.SizeOf(nil, request, false, opt.LeastDays, histories.At)} // of no pod
		for i, workload := range of[app] {
			size := usage.SizeOf(histories.Pods[workload], request, isJob(workload), opt.LeastDays, histories.At)
			list = append(list[:i], size)
		}
		return usage.Largest(list)
	}, opt.LeastDays)
	if err != nil {
		return nil, nil, err
	}
	r := &UseReport{
		First: dayOf(rec.Days[0]), From: judged.From, Until: dayOf(rec.Until), Cut: cuts,
		Beyond: judged.Beyond, Partial: max(histories.Partial, judged.Partial), Dropped: histories.Dropped,
	}
	r.Dropped.Merge(judged.Dropped)
	u := r.seriesOf(by, judged)
	if len(u.Series) == 0 {
		return nil, nil, fmt.Errorf("the %d judged days from %s on have no use of the pods that are there: a number of nodes by use has no risk beside it", opt.JudgeDays, judged.From.Format(time.DateOnly))
	}
	by.SetUsage(u)
	by.MeasureFrom = 0
	for _, d := range rec.Days {
		if d < from {
			r.Fitted++
		} else {
			r.Judged++
		}
	}
	for a := range sizes {
		r.Workloads = append(r.Workloads, WorkloadUse{App: by.Instance.Apps[a].Name, Group: groupOf(by, int32(a)), Size: sizes[a]})
		if a < len(t.Instance.Apps) {
			r.Workloads[a].Request = requestOf(t, a)
		}
	}
	for i, q := range by.Requests {
		r.Workloads[q.App].Pods += int(q.Count)
		r.Workloads[q.App].Request = requestOf(t, int(t.Requests[i].App))
	}
	r.Workloads = append(r.Workloads, p.fixedUse(histories, opt)...)
	r.setUnknown(histories, n)
	source := by.Source["sizes"].(map[string]any)
	source["history"] = fmt.Sprintf("cAdvisor in Prometheus: %d days from %s on fitted, %d from %s on in usage.csv.gz from time 0 on",
		r.Fitted, r.First.Format(time.DateOnly), r.Judged, r.From.Format(time.DateOnly))
	for key, share := range r.unseen() {
		source[key] = math.Round(share*1e4) / 1e4
	}
	source["covered"] = math.Round(r.Covered*1e4) / 1e4
	source["dropped"] = r.Dropped.Count
	return by, r, nil
}

// unseen are the shares of use that count nowhere, by their keys in [sized.Unseen].
func (r *UseReport) unseen() map[string]float64 {
	return map[string]float64{"unknown": r.Unknown, "gone": r.Gone, "beyond": r.Beyond, "partial": r.Partial}
}

// setUnknown finds the shares of the cpu in use of pods that count in no workload.
func (r *UseReport) setUnknown(h *prometheus.Histories, n *namer) {
	holds := map[string]bool{}
	for _, workload := range n.Pods {
		holds[workload] = true
	}
	all, unknown, gone := 0., 0., 0.
	for _, workload := range slices.Sorted(maps.Keys(h.Used)) {
		used := h.Used[workload]
		all += used
		switch {
		case workload == "":
			unknown += used
		case !holds[workload]:
			gone += used
		}
	}
	if all > 0 {
		r.Unknown, r.Gone = unknown/all, gone/all
	}
}

// largestNode is the most that a node has of each resource.
func (p *Picture) largestNode() (most usage.Amounts) {
	for _, list := range [][]*v1.Node{p.AllNodes, p.Nodes} {
		for _, n := range list {
			for _, has := range []v1.ResourceList{n.Status.Allocatable, n.Status.Capacity} {
				most.CPU, most.Memory = max(most.CPU, has.Cpu().AsApproximateFloat64()), max(most.Memory, has.Memory().AsApproximateFloat64())
			}
		}
	}
	return most
}

// containers returns the names of the containers that a present pod has from its beginning to its end.
func (p *Picture) containers() func(prometheus.Pod) []string {
	all := map[prometheus.Pod][]string{}
	for _, list := range [][]*v1.Pod{p.AllPods, p.Pods} {
		for _, pod := range list {
			var names []string
			for i := range pod.Spec.Containers {
				names = append(names, pod.Spec.Containers[i].Name)
			}
			all[prometheus.Pod{Namespace: pod.Namespace, Name: pod.Name}] = names
		}
	}
	return func(pod prometheus.Pod) []string { return all[pod] }
}

func dayOf(number int64) time.Time { return time.Unix(number*86400, 0).UTC() }

func groupOf(t *trace.Trace, app int32) string {
	return t.Instance.Groups[t.Instance.Apps[app].Group].Name
}

// requestOf is the request of one item of a trace, in cores and bytes.
func requestOf(t *trace.Trace, app int) (a usage.Amounts) {
	for d, dim := range t.Instance.Dimensions {
		amount := float64(t.Instance.Apps[app].Demand[d]) / float64(dim.One)
		switch dim.Name {
		case "cpu":
			a.CPU = amount
		case "memory":
			a.Memory = amount
		}
	}
	return a
}

// fixedUse is the use of the pods that reduce their node's capacity by their request.
func (p *Picture) fixedUse(h *prometheus.Histories, opt UseOptions) (list []WorkloadUse) {
	at := map[string]int{}
	for _, pod := range p.Pods {
		if podspec.Moves(pod) || pod.Spec.NodeName == "" {
			continue
		}
		group := podspec.Group(pod, "")
		if i, ok := at[group]; ok {
			list[i].Pods++
			continue
		}
		at[group] = len(list)
		demand := podspec.Demand(pod)
		request := usage.Amounts{CPU: float64(demand["cpu"]) / 1000, Memory: float64(demand["memory"])}
		list = append(list, WorkloadUse{
			App: group, Group: group, Pods: 1, Request: request, Fixed: true,
			Size: usage.SizeOf(h.Pods[group], request, false, opt.LeastDays, h.At),
		})
	}
	slices.SortFunc(list, func(a, b WorkloadUse) int { return strings.Compare(a.App, b.App) })
	return list
}

// seriesOf are the judged days as series of a trace's items, and notes how much of their time they cover.
func (r *UseReport) seriesOf(t *trace.Trace, j *prometheus.Judged) *trace.Usage {
	u := &trace.Usage{}
	r.Covered = 1
	steps := int(r.Until.Sub(r.From)/prometheus.Step) * len(t.Requests)
	for d, dim := range t.Instance.Dimensions {
		values := map[string]map[prometheus.Pod][]float32{"cpu": j.CPU, "memory": j.Memory}[dim.Name]
		if values == nil {
			continue
		}
		covered := 0
		fine := map[string]float64{"cpu": 1e6, "memory": 1}[dim.Name] // a quantity has at most nine decimals
		for _, q := range t.Requests {
			namespace, name, _ := strings.Cut(q.Name, "/")
			if v := values[prometheus.Pod{Namespace: namespace, Name: name}]; v != nil {
				for i := range v {
					if v[i] == v[i] {
						covered++
					}
					v[i] = float32(math.Ceil(float64(v[i])*fine) / fine)
				}
				u.Series = append(u.Series, trace.Series{App: q.App, Dimension: int32(d), Item: q.Name, Step: prometheus.Step.Seconds(), Values: v})
			}
		}
		r.Covered = min(r.Covered, float64(covered)/float64(max(1, steps)))
	}
	return u
}
