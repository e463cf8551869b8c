package kube

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/pricelist"
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
// matches it, else by the built-in list of prices if it counts, else by a linear model of cpu, memory and GPUs. nil has
// no file and no list.
type Prices struct {
	Currency string // of the file; USD where it names none
	list     []trace.NodePrice
	builtIn  bool
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
	return &Prices{Currency: cmp.Or(currency, "USD"), list: list}, nil
}

// WithList returns prices that take the built-in list where the file has no line. It is in USD: prices in
// another currency stay as they are.
func (p *Prices) WithList() *Prices {
	switch {
	case p == nil:
		return &Prices{Currency: "USD", builtIn: true}
	case p.Currency != "USD":
		return p
	}
	return &Prices{Currency: p.Currency, list: p.list, builtIn: true}
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
	ByList       PriceSource = "built-in list"
	ByModel      PriceSource = "model"
	ByLinux      PriceSource = "model of Linux" // of a node of another system: its licence is in no list, and not in the model
)

// mostCost bounds the cost of a node an hour.
const mostCost = 1e12

// Of returns the cost of a node an hour. An annotation that is not a positive number is ignored: it must
// not make the node unusable.
func (p *Prices) Of(n *v1.Node) (float64, PriceSource) {
	if v, err := strconv.ParseFloat(n.Annotations[CostAnnotation], 64); err == nil && v > 0 && v <= mostCost {
		return v, ByAnnotation
	}
	if q := p.line(n); q != nil {
		return q.PerHour, ByFile
	}
	if price, ok := p.listed(n); ok {
		return price.PerHour, ByList
	}
	if p != nil && !OfLinux(n) {
		return model(n), ByLinux
	}
	return model(n), ByModel
}

// OfLinux reports whether a node runs Linux, as far as its system is known.
func OfLinux(n *v1.Node) bool {
	return cmp.Or(n.Labels[v1.LabelOSStable], n.Status.NodeInfo.OperatingSystem, string(v1.Linux)) == string(v1.Linux)
}

// line is the first line of the file that is for a node; nil = none is.
func (p *Prices) line(n *v1.Node) *trace.NodePrice {
	if p == nil {
		return nil
	}
	instance, capacity, region := InstanceType(n), CapacityType(n), Region(n)
	i := slices.IndexFunc(p.list, func(q trace.NodePrice) bool {
		return fits(q.InstanceType, instance) && fits(q.CapacityType, capacity) && fits(q.Region, region)
	})
	if i < 0 {
		return nil
	}
	return &p.list[i]
}

// OfType returns the cost of a node an hour by its instance type: by a line of the file that names it, or by the built-in
// list. ok is false where a line for any type is before it, or neither has a price.
func (p *Prices) OfType(n *v1.Node) (cost float64, ok bool) {
	if q := p.line(n); q != nil {
		return q.PerHour, q.InstanceType != ""
	}
	price, ok := p.listed(n)
	return price.PerHour, ok
}

// InstanceType is the instance type of a node; "" = it has no label of it.
func InstanceType(n *v1.Node) string {
	return firstLabel(n, v1.LabelInstanceTypeStable, v1.LabelInstanceType)
}

// Region is the region of a node; "" = it has no label of it.
func Region(n *v1.Node) string {
	return firstLabel(n, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion)
}

// listed returns the price of a node in the built-in list. Google prices GPUs apart from its types: they cost as in the
// linear model. The list is of Linux: a node of another system has no price in it.
func (p *Prices) listed(n *v1.Node) (price pricelist.Price, ok bool) {
	if p == nil || !p.builtIn || !OfLinux(n) {
		return price, false
	}
	has := n.Status.Capacity
	instance := InstanceType(n)
	price, ok = pricelist.Of(pricelist.Node{
		ProviderID: n.Spec.ProviderID, Type: instance, Region: Region(n), Spot: CapacityType(n) == "spot",
		Cores: float64(podspec.Milli(has.Cpu())) / 1000, GiB: float64(podspec.Value(has.Memory())) / (1 << 30),
	})
	if ok && pricelist.ProviderOf(n.Spec.ProviderID, instance) == pricelist.Google {
		price.PerHour += gpuHours(podspec.Amounts(has))
	}
	return price, ok
}

// Origin returns the source of a node's price in the built-in list, as text; "" = it has another source.
func (p *Prices) Origin(n *v1.Node) string {
	if _, by := p.Of(n); by != ByList {
		return ""
	}
	price, _ := p.listed(n)
	return price.Source
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

// Spot is the capacity type of nodes that may be taken away.
const Spot = "spot"

// CapacityType returns on-demand, spot or reserved by the labels of Karpenter, EKS, GKE and AKS; on-demand
// without them.
func CapacityType(n *v1.Node) string {
	switch strings.ToLower(strings.ReplaceAll(firstLabel(n, "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"), "_", "-")) {
	case "spot":
		return "spot"
	case "reserved", "capacity-block":
		return "reserved"
	}
	for key, value := range n.Labels {
		if NamesSpot(key, value) {
			return "spot"
		}
	}
	return "on-demand"
}

// spotLabels are the labels of spot nodes, and the taints of the same names, with their values:
// https://karpenter.sh/docs/concepts/scheduling/, https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html,
// https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms, https://learn.microsoft.com/azure/aks/spot-node-pool.
var spotLabels = map[string][]string{
	"karpenter.sh/capacity-type": {"spot"}, "eks.amazonaws.com/capacityType": {"SPOT"},
	"cloud.google.com/gke-spot": {"true"}, "cloud.google.com/gke-preemptible": {"true"}, "cloud.google.com/gke-provisioning": {"spot", "preemptible"},
	"kubernetes.azure.com/scalesetpriority": {"spot"},
}

// NamesSpot reports whether a label, or the taint of that name, is one of spot nodes.
func NamesSpot(key, value string) bool {
	return slices.ContainsFunc(spotLabels[key], func(spot string) bool { return strings.EqualFold(spot, value) })
}

// SpotKey reports whether a label, or the taint of that name, has a value of spot nodes; alone is true where nodes of other kinds
// do not have it.
func SpotKey(key string) (known, alone bool) {
	values := spotLabels[key]
	return values != nil, len(values) == 1 && (values[0] == "true" || key == "kubernetes.azure.com/scalesetpriority")
}

// gpuHours returns the cost of GPUs an hour in the linear model.
func gpuHours(amounts map[string]int64) (sum float64) {
	for name, n := range amounts {
		if strings.HasSuffix(name, "/gpu") {
			sum += float64(float64(n) * gpuHour)
		}
	}
	return sum
}

// Linear returns the cost an hour of some amounts, in the units of podspec, by the linear model.
func Linear(amounts map[string]int64) float64 {
	return float64(float64(amounts["cpu"])/1000*cpuHour) + float64(float64(amounts["memory"])/(1<<30)*gibHour) + gpuHours(amounts)
}

// model is the linear model, to three digits: machines of one type report some kB more or less.
func model(n *v1.Node) float64 {
	has := n.Status.Capacity
	if len(has) == 0 {
		has = n.Status.Allocatable
	}
	sum := min(Linear(podspec.Amounts(has)), mostCost)
	if !(sum > 0) {
		return 1
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(sum, 'g', 3, 64), 64)
	if err != nil || math.IsInf(rounded, 0) {
		return 1
	}
	return rounded
}
