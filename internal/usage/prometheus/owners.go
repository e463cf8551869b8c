package prometheus

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// The owners of pods, ReplicaSets and Jobs in a time, as kube-state-metrics has them. A scrape that
// keeps the labels of the target renames those of the object to exported_….
const ownedBy = `max by (%[1]s, namespace, exported_namespace, %[2]sowner_kind, owner_name) (last_over_time(%[3]s{%[5]s}[%[4]ds]))`

// ownersOf are the top controllers of the pods of a day. Without kube-state-metrics there are
// none.
func ownersOf(ctx context.Context, servers []*server, begin time.Time, match string) (map[Pod]Owner, error) {
	above := map[string]map[Pod]Owner{}
	for _, kind := range []struct{ metric, label, exported string }{
		{"kube_pod_owner", "pod", "exported_pod, "},
		{"kube_replicaset_owner", "replicaset", ""},
		{"kube_job_owner", "job_name", ""},
	} {
		found := map[Pod]Owner{}
		above[kind.metric] = found
		for _, s := range servers {
			err := inParts(ctx, 0, Steps, Steps, func(first, last int) error {
				query := fmt.Sprintf(ownedBy, kind.label, kind.exported, kind.metric, int(Step/time.Second)*(last-first), also(`owner_is_controller="true"`, match))
				v, err := s.at(ctx, query, begin.Add(time.Duration(last)*Step))
				for _, sample := range v {
					if o := (Owner{string(sample.Metric["owner_kind"]), string(sample.Metric["owner_name"])}); o.Name != "" && o.Kind != "<none>" {
						found[Pod{exported(sample.Metric, "namespace"), exported(sample.Metric, kind.label)}] = o
					}
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	owners := above["kube_pod_owner"]
	for pod, o := range owners {
		var next Owner
		var ok bool
		switch o.Kind {
		case "ReplicaSet":
			next, ok = above["kube_replicaset_owner"][Pod{pod.Namespace, o.Name}]
		case "Job":
			next, ok = above["kube_job_owner"][Pod{pod.Namespace, o.Name}]
		}
		if ok {
			owners[pod] = next
		}
	}
	return owners, nil
}

func exported(m model.Metric, name string) string {
	label := model.LabelName(name)
	if v, ok := m["exported_"+label]; ok && v != "" {
		return string(v)
	}
	return string(m[label])
}
