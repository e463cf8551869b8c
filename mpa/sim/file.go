package sim

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// appFile is an App as people write it: durations and Kubernetes quantities.
type appFile struct {
	Name        string        `yaml:"name"`
	Segments    []segmentFile `yaml:"segments"`
	Workers     int           `yaml:"workers"`
	Queue       *int          `yaml:"queue"`
	Timeout     duration      `yaml:"timeout"`
	Retries     int           `yaml:"retries"`
	Balance     string        `yaml:"balance"`
	Parallelism float64       `yaml:"parallelism"`
	Quantum     duration      `yaml:"quantum"`
	Wake        duration      `yaml:"wake"`
	Contention  float64       `yaml:"contention"`
	Front       int           `yaml:"front"`
	Clients     int           `yaml:"clients"`
	Think       distFile      `yaml:"think"`
	LimitRatio  float64       `yaml:"limitRatio"`
	Memory      struct {
		Base            quantity `yaml:"base"`
		CachePerRequest quantity `yaml:"cachePerRequest"`
		CacheMax        quantity `yaml:"cacheMax"`
		LeakPerRequest  quantity `yaml:"leakPerRequest"`
		Collector       bool     `yaml:"collector"`
	} `yaml:"memory"`
	Start struct {
		Replicas     int32 `yaml:"replicas"`
		resourceFile `yaml:",inline"`
	} `yaml:"start"`
	SLO struct {
		Percentile float64  `yaml:"percentile"`
		Latency    duration `yaml:"latency"`
	} `yaml:"slo"`
	Replicas rangeFile `yaml:"replicas"`
	Limit    rangeFile `yaml:"limit"`
	Requests struct {
		Min resourceFile `yaml:"min"`
		Max resourceFile `yaml:"max"`
	} `yaml:"requests"`
}

type rangeFile struct {
	Min int32 `yaml:"min"`
	Max int32 `yaml:"max"`
}

type segmentFile struct {
	Profile string   `yaml:"profile"`
	Name    string   `yaml:"name"`
	CPU     distFile `yaml:"cpu"`
	Wait    distFile `yaml:"wait"`
	Memory  quantity `yaml:"memory"`
}

type distFile struct {
	Mean duration `yaml:"mean"`
	CV   float64  `yaml:"cv"`
}

type resourceFile struct {
	CPU    quantity `yaml:"cpu"`
	Memory quantity `yaml:"memory"`
}

func (r resourceFile) resources() mpa.Resources {
	return mpa.Resources{CPU: r.CPU.MilliValue(), Memory: r.Memory.Value()}
}

// mostCPU are the millicores that the object allows at most.
const mostCPU = 100_000_000

// A quantity is one of Kubernetes, from 0 to 1Pi.
type quantity struct{ resource.Quantity }

func (q *quantity) UnmarshalYAML(n *yaml.Node) error {
	v, err := resource.ParseQuantity(n.Value)
	if err != nil || v.Sign() < 0 || v.AsApproximateFloat64() > 1<<50 {
		return fmt.Errorf("line %d: %q is not a quantity from 0 to 1Pi", n.Line, n.Value)
	}
	q.Quantity = v
	return nil
}

// A duration is one of Go, as "250ms".
type duration float64 // seconds

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is not a duration from 0 up, as 250ms", n.Line, n.Value)
	}
	*d = duration(v.Seconds())
	return nil
}

// ReadApp reads an application. Errors name the file and the line or the field.
func ReadApp(path string) (App, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return App{}, err
	}
	var f appFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return App{}, fmt.Errorf("%s: %w", path, err)
	}
	a, err := f.app()
	if err != nil {
		return App{}, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func (f *appFile) app() (App, error) {
	a := App{
		Name: f.Name, LimitRatio: f.LimitRatio,
		Service: loadsim.Service{
			Workers: f.Workers, Queue: -1, Timeout: float64(f.Timeout), Retries: f.Retries, Balance: f.Balance,
			Parallelism: f.Parallelism, Quantum: float64(f.Quantum), Wake: float64(f.Wake),
			Contention: f.Contention, Front: f.Front, Clients: f.Clients, Think: f.Think.dist(),
		},
		Memory: Memory{
			Base: f.Memory.Base.AsApproximateFloat64(), CachePerRequest: f.Memory.CachePerRequest.AsApproximateFloat64(),
			CacheMax: f.Memory.CacheMax.AsApproximateFloat64(), LeakPerRequest: f.Memory.LeakPerRequest.AsApproximateFloat64(),
			Collector: f.Memory.Collector,
		},
		Replicas: f.Start.Replicas, Request: f.Start.resources(),
		Target: mpa.Target{
			SLO:      mpa.SLO{Percentile: f.SLO.Percentile, Latency: float64(f.SLO.Latency)},
			Replicas: mpa.Range(f.Replicas),
			Limit:    mpa.Range(f.Limit),
			Containers: []mpa.ContainerSpec{{
				Name: f.Name, CPU: true, Memory: true, Min: f.Requests.Min.resources(), Max: f.Requests.Max.resources(),
			}},
		},
	}
	if f.Queue != nil {
		a.Queue = *f.Queue
	}
	for i, s := range f.Segments {
		segment := loadsim.Segment{Name: s.Name, CPU: s.CPU.dist(), Wait: s.Wait.dist(), Memory: s.Memory.AsApproximateFloat64()}
		if s.Profile != "" {
			var err error
			if segment, err = profile(s.Profile); err != nil {
				return a, fmt.Errorf("segments[%d].profile %w", i, err)
			}
		}
		a.Segments = append(a.Segments, segment)
	}
	switch {
	case a.Name == "" || strings.ContainsAny(a.Name, `/\`): // it names journals
		return a, fmt.Errorf("name %q: want some letters, and no slash", a.Name)
	case a.Replicas < 1:
		return a, fmt.Errorf("start.replicas %d: want at least 1", a.Replicas)
	case a.Request.CPU < 1 || a.Request.Memory < 1:
		return a, fmt.Errorf("start: cpu and memory are needed")
	case max(a.Request.CPU, a.Target.Containers[0].Min.CPU, a.Target.Containers[0].Max.CPU) > mostCPU:
		return a, fmt.Errorf("start.cpu, requests: want at most %d cores", mostCPU/1000)
	case a.Workers < 0 || a.Retries < 0 || a.Retries > 20:
		return a, fmt.Errorf("workers %d, retries %d: want at least 0, and at most 20 retries", a.Workers, a.Retries)
	case !(a.Parallelism >= 0 && a.Parallelism <= 1e6) || !(a.LimitRatio == 0 || a.LimitRatio >= 1 && a.LimitRatio <= 1e6):
		return a, fmt.Errorf("parallelism %v, limitRatio %v: want 0 to a million, and limits from the requests up", a.Parallelism, a.LimitRatio)
	case f.Requests.Max.CPU.Sign() > 0 && f.Requests.Max.CPU.Cmp(f.Requests.Min.CPU.Quantity) < 0,
		f.Requests.Max.Memory.Sign() > 0 && f.Requests.Max.Memory.Cmp(f.Requests.Min.Memory.Quantity) < 0:
		return a, fmt.Errorf("requests.max is below requests.min")
	case a.Quantum > 0 && a.Quantum < 1e-4:
		return a, fmt.Errorf("quantum %v s: want 0 or at least 100us", a.Quantum)
	case a.Balance != "" && a.Balance != "two" && a.Balance != "random":
		return a, fmt.Errorf("balance %q: want two or random", a.Balance)
	case a.Target.SLO.Latency == 0:
		return a, fmt.Errorf("slo.latency and slo.percentile are needed")
	}
	if err := a.Target.Validate(); err != nil {
		return a, err
	}
	return a, a.prepare()
}

func (d distFile) dist() loadsim.Dist { return loadsim.Dist{Mean: float64(d.Mean), CV: d.CV} }

// Profiles are segments for applications: bound by the processor, by memory, by disks and
// by the network, four of each. Means of cpu and wait are in seconds.
var Profiles = profiles()

func profiles() []loadsim.Segment {
	var list []loadsim.Segment
	for _, kind := range []struct {
		name              string
		cpu, wait, memory float64 // of the small one
	}{
		{"cpu", .004, 0, 1 << 20},
		{"memory", .003, .001, 16 << 20},
		{"io", .001, .01, 2 << 20},
		{"network", .0015, .02, 1 << 20},
	} {
		factor := 1.0
		for _, size := range []string{"small", "medium", "large", "huge"} {
			cv := 1.0
			if size == "huge" {
				cv = 2
			}
			list = append(list, loadsim.Segment{
				Name: kind.name + "-" + size, Memory: kind.memory * factor,
				CPU: loadsim.Dist{Mean: kind.cpu * factor, CV: cv}, Wait: loadsim.Dist{Mean: kind.wait * factor, CV: .5},
			})
			factor *= 3
		}
	}
	return list
}

// profile is one of [Profiles].
func profile(name string) (loadsim.Segment, error) {
	at := slices.IndexFunc(Profiles, func(p loadsim.Segment) bool { return p.Name == name })
	if at < 0 {
		return loadsim.Segment{}, fmt.Errorf("%q: there are %s", name, strings.Join(profileNames(), ", "))
	}
	return Profiles[at], nil
}

func profileNames() []string {
	names := make([]string, len(Profiles))
	for i, p := range Profiles {
		names[i] = p.Name
	}
	return names
}
