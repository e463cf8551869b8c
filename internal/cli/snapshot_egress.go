package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// sentQuery returns the traffic that each pod sent: the 95th percentile of its five-minute rates
// over a day.
const sentQuery = `8 * quantile_over_time(0.95, (sum by (namespace, pod) (rate(container_network_transmit_bytes_total{interface!="lo",pod!=""%s}[5m])))[1d:5m])`

// sentTimeout bounds the query: a day of every pod is read.
const sentTimeout = 2 * time.Minute

// egressFlags define whether and how a snapshot counts the traffic that pods send.
type egressFlags struct {
	on     bool
	uplink string
	share  float64
}

func (f *egressFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "egress", false, "add what pods send as the dimension egress: by request or annotation, else as they sent in the last day by --prometheus")
	flags.StringVar(&f.uplink, "uplink", "", "what the uplink of a node can that does not say it, in bits a second, such as 10G")
	flags.Float64Var(&f.share, "egress-share", compare.EgressShare, "part of its uplink that the pods of a node may have together")
}

// read returns nil where egress does not count.
func (f *egressFlags) read(ctx context.Context, flags *pflag.FlagSet, from *prometheusFlags) (*snapshot.Egress, error) {
	if !f.on {
		for _, name := range []string{"uplink", "egress-share"} {
			if flags.Changed(name) {
				return nil, usagef("--%s wants --egress", name)
			}
		}
		return nil, nil
	}
	if !(f.share > 0 && f.share <= 1) {
		return nil, usagef("--egress-share %v: want a number above 0, up to 1", f.share)
	}
	e := &snapshot.Egress{Share: f.share}
	if f.uplink != "" {
		q, err := resource.ParseQuantity(f.uplink)
		if err != nil || q.Sign() <= 0 || podspec.Value(&q) > binpack.MaxValue {
			return nil, usagef("--uplink %q: want bits a second above 0, such as 10G", f.uplink)
		}
		e.Uplink = podspec.Value(&q)
	}
	for _, url := range from.servers {
		seen, err := sent(ctx, url, from.match)
		if err != nil {
			return nil, err
		}
		maps.Copy(seen, e.Seen) // the first server with a pod counts
		e.Seen = seen
	}
	return e, nil
}

// sent queries a Prometheus for the traffic that pods sent, by namespace/name.
func sent(ctx context.Context, url, match string) (map[string]float64, error) {
	client, err := api.NewClient(api.Config{Address: url})
	if err != nil {
		return nil, usagef("--prometheus %q: %v", url, err)
	}
	if match != "" {
		match = "," + match
	}
	ctx, cancel := context.WithTimeout(ctx, sentTimeout)
	defer cancel()
	value, _, err := promv1.NewAPI(client).Query(ctx, fmt.Sprintf(sentQuery, match), time.Now())
	if err != nil {
		return nil, fmt.Errorf("--prometheus %s: %w", url, err)
	}
	series, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("--prometheus %s: it answers with a %s, not a vector", url, value.Type())
	}
	if len(series) == 0 {
		return nil, fmt.Errorf("--prometheus %s: %w", url, errors.New("it has no container_network_transmit_bytes_total of pods"))
	}
	seen := map[string]float64{}
	for _, s := range series {
		if bits := float64(s.Value); bits >= 0 {
			seen[string(s.Metric["namespace"])+"/"+string(s.Metric["pod"])] = bits
		}
	}
	return seen, nil
}
