package kube

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// CostAnnotation of a node is its cost an hour, in the currency of the prices.
const CostAnnotation = "sigma-scheduler.io/cost"

// The cost of a cpu, a GiB of memory and a GPU an hour where a node's cost is not given:
// OpenCost's default prices, in USD. Their ratios matter, not their size.
const (
	cpuHour = 0.031611
	gibHour = 0.004237
	gpuHour = 0.95
)

// Prices give the cost of nodes an hour: by a node's annotation, else by the first line of a file that
// matches it, else by a linear model of cpu, memory and GPUs. nil has no file.
type Prices struct {
	Currency string // of the file; USD where it names none
	list     []trace.NodePrice
}

// ReadPrices reads a file of node prices, see [trace.ReadNodePrices]; "" = no file.
func ReadPrices(path string) (*Prices, error) {
	if path == "" {
		return nil, nil
	}
	list, currency, err := trace.ReadNodePrices(path)
	if err != nil {
		return nil, err
	}
	return &Prices{cmp.Or(currency, "USD"), list}, nil
}

// Unit returns the currency of hourly costs; "" without a file.
func (p *Prices) Unit() string {
	if p == nil {
		return ""
	}
	return p.Currency
}

// A PriceSource is the source of a node's price.
type PriceSource string

// The sources; the first available counts.
const (
	ByAnnotation PriceSource = "annotation"
	ByFile       PriceSource = "file"
	ByModel      PriceSource = "model"
)

// mostCost bounds the cost of a node an hour.
const mostCost = 1e12

// Of returns the cost of a node an hour. An annotation that is not a positive number is ignored: it must
// not make the node unusable.
func (p *Prices) Of(n *v1.Node) (float64, PriceSource) {
	if v, err := strconv.ParseFloat(n.Annotations[CostAnnotation], 64); err == nil && v > 0 && v <= mostCost {
		return v, ByAnnotation
	}
	if p != nil {
		at := trace.NodePrice{
			InstanceType: firstLabel(n, v1.LabelInstanceTypeStable, v1.LabelInstanceType),
			CapacityType: capacityType(n),
			Region:       firstLabel(n, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion),
		}
		for _, q := range p.list {
			if fits(q.InstanceType, at.InstanceType) && fits(q.CapacityType, at.CapacityType) && fits(q.Region, at.Region) {
				return q.PerHour, ByFile
			}
		}
	}
	return model(n), ByModel
}

func fits(asked, is string) bool { return asked == "" || asked == is }

// firstLabel returns the first of some labels that a node has.
func firstLabel(n *v1.Node, keys ...string) string {
	for _, key := range keys {
		if value := n.Labels[key]; value != "" {
			return value
		}
	}
	return ""
}

// capacityType returns on-demand, spot or reserved by the labels of Karpenter, EKS, GKE and AKS; on-demand
// without them.
func capacityType(n *v1.Node) string {
	switch strings.ToLower(strings.ReplaceAll(firstLabel(n, "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"), "_", "-")) {
	case "spot":
		return "spot"
	case "reserved", "capacity-block":
		return "reserved"
	}
	if n.Labels["cloud.google.com/gke-spot"] == "true" || n.Labels["cloud.google.com/gke-preemptible"] == "true" ||
		n.Labels["kubernetes.azure.com/scalesetpriority"] == "spot" {
		return "spot"
	}
	return "on-demand"
}

// model is the linear model, to three digits: machines of one type report some kB more or less.
func model(n *v1.Node) float64 {
	has := n.Status.Capacity
	if len(has) == 0 {
		has = n.Status.Allocatable
	}
	memory := has[v1.ResourceMemory]
	sum := float64(float64(podspec.Milli(has.Cpu()))/1000*cpuHour) + float64(float64(podspec.Value(&memory))/(1<<30)*gibHour)
	for name, quantity := range has {
		if strings.HasSuffix(string(name), "/gpu") {
			sum += float64(float64(podspec.Value(&quantity)) * gpuHour)
		}
	}
	if sum = min(sum, mostCost); !(sum > 0) {
		return 1
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(sum, 'g', 3, 64), 64)
	if err != nil || math.IsInf(rounded, 0) {
		return 1
	}
	return rounded
}
