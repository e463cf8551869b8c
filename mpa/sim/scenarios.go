package sim

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// A Scenario is an application under a load.
type Scenario struct {
	App  App
	Name string       // of the load
	Load loadsim.Load // at the application's peak
	// Hours to simulate, and how many of the first do not count.
	Hours, Warmup float64
	Site          *Site // nil = the default one
}

// Config returns a simulation of the scenario.
func (s *Scenario) Config(seed uint64) Config {
	site := s.Site
	if site == nil {
		usual := DefaultSite()
		site = &usual
	}
	return Config{
		App: s.App, Load: s.Load, Seconds: s.Hours * 3600, Warmup: s.Warmup * 3600,
		Seed: seed, Guards: mpa.DefaultGuards(), Site: *site,
	}
}

// split has the scenarios that agents may be tuned on, and those that judge them. No segment
// profile, trace or family is on both sides. Do not change it together with an agent.
var split = map[string]struct {
	apps   []splitApp
	loads  map[string]splitLoad
	couple [][2]string // application and load
}{
	"train": {
		apps: []splitApp{
			{
				name: "front", segments: []string{"network-medium", "cpu-small"}, peak: 100,
				base: 180 << 20, cacheEach: 4 << 10, cacheMax: 120 << 20, leak: 256,
				replicas: 5, cpu: 250, memory: 512 << 20, workers: 32, percentile: 99, latency: .4,
			},
			{
				name: "cart", segments: []string{"memory-small", "io-medium"}, peak: 120,
				base: 120 << 20, replicas: 4, cpu: 250, memory: 512 << 20, workers: 16, percentile: 99, latency: .25,
			},
			{
				name: "thumbs", segments: []string{"cpu-large"}, peak: 70,
				base: 90 << 20, cacheEach: 64 << 10, cacheMax: 400 << 20,
				replicas: 6, cpu: 600, memory: 1 << 30, workers: 32, percentile: 99, latency: .5,
			},
			{
				name: "reports", segments: []string{"memory-large", "io-huge", "network-huge"}, peak: 35,
				base: 300 << 20, replicas: 6, cpu: 750, workers: 14, memory: 4 << 30, percentile: 95, latency: 3,
			},
		},
		loads: map[string]splitLoad{
			"worldcup98":     {file: "worldcup98_rpm.csv", skip: 1500, hours: 48, warmup: 24},
			"azure-llm-code": {file: "azure_llm_2023_code.csv", hours: 5, warmup: 1},
			"step":           {family: "step", set: map[string]string{"low": "100", "noise": ".05"}, hours: 5, warmup: 1},
			"diurnal":        {family: "diurnal", hours: 48, warmup: 24},
		},
		couple: [][2]string{
			{"front", "worldcup98"},
			{"cart", "diurnal"},
			{"thumbs", "diurnal"},
			{"reports", "worldcup98"},
			{"front", "azure-llm-code"},
			{"cart", "azure-llm-code"},
			{"thumbs", "azure-llm-code"},
			{"reports", "azure-llm-code"},
			{"front", "step"},
			{"cart", "step"},
			{"thumbs", "step"},
			{"reports", "step"},
		},
	},
	"test": {
		apps: []splitApp{
			{
				name: "login", segments: []string{"io-small", "network-small"}, peak: 200,
				base: 100 << 20, replicas: 4, cpu: 200, memory: 256 << 20, workers: 32, percentile: 99, latency: .25,
			},
			{
				name: "search", segments: []string{"cpu-medium", "memory-medium"}, peak: 70,
				base: 250 << 20, cacheEach: 16 << 10, cacheMax: 500 << 20, leak: 128,
				replicas: 6, cpu: 350, memory: 2 << 30, workers: 24, percentile: 99, latency: .35,
			},
			{
				name: "video", segments: []string{"cpu-huge"}, peak: 30,
				base: 150 << 20, replicas: 5, cpu: 1000, memory: 512 << 20, workers: 12, percentile: 95, latency: .9,
			},
			{
				name: "ledger", segments: []string{"io-large", "network-large", "memory-huge"}, peak: 30,
				base: 400 << 20, replicas: 5, cpu: 1000, workers: 8, memory: 5 << 30, percentile: 95, latency: 1.6,
			},
		},
		loads: map[string]splitLoad{
			"nasa":           {file: "nasa_http_1995_rpm.csv", skip: 24 * 7, hours: 48, warmup: 24},
			"twitter":        {file: "twitter_stream_2021_08_rpm.csv", skip: 24 * 3, fill: true, hours: 48, warmup: 24},
			"azure-llm-conv": {file: "azure_llm_2023_conv.csv", hours: 5, warmup: 1},
			"ramp":           {family: "ramp", set: map[string]string{"noise": ".05"}, hours: 5, warmup: 1},
			"flash-crowd":    {family: "flash-crowd", hours: 5, warmup: 1},
			"regime-change":  {family: "regime-change", set: map[string]string{"length": "1"}, hours: 7, warmup: 1},
		},
		couple: [][2]string{
			{"login", "nasa"},
			{"search", "twitter"},
			{"video", "twitter"},
			{"ledger", "nasa"},
			{"login", "azure-llm-conv"},
			{"ledger", "azure-llm-conv"},
			{"search", "ramp"},
			{"ledger", "ramp"},
			{"login", "flash-crowd"},
			{"video", "flash-crowd"},
			{"search", "regime-change"},
			{"video", "regime-change"},
		},
	},
}

type splitApp struct {
	name     string
	segments []string // profiles
	peak     float64  // requests per second at the peak of a load
	// Memory in bytes, cpu in millicores, latency in seconds.
	base, cacheEach, cacheMax, leak float64
	replicas                        int32
	cpu, memory                     int64
	workers                         int
	percentile, latency             float64
}

type splitLoad struct {
	file          string // a trace; else
	family        string
	set           map[string]string
	skip          float64 // hours
	fill          bool    // steps without requests are gaps of the recording
	hours, warmup float64
}

// Scenarios returns those of a side of the split, "train" or "test". It reads traces from a
// folder. Scenarios whose trace is missing, or all with traces if folder is "", are left out
// and named in skipped.
func Scenarios(side, folder string) (list []Scenario, skipped []string, err error) {
	s, ok := split[side]
	if !ok {
		return nil, nil, fmt.Errorf("unknown side %q: there are train, test", side)
	}
	apps := map[string]splitApp{}
	for _, a := range s.apps {
		apps[a.name] = a
	}
	read := map[string]loadsim.Load{}
	for _, c := range s.couple {
		l := s.loads[c[1]]
		path := filepath.Join(folder, l.file)
		if l.file != "" {
			if _, err := os.Stat(path); folder == "" || os.IsNotExist(err) {
				skipped = append(skipped, c[0]+"/"+c[1]+" ("+l.file+")")
				continue
			}
		}
		load, ok := read[c[1]]
		if !ok {
			if load, err = l.load(path); err != nil {
				return nil, nil, err
			}
			read[c[1]] = load
		}
		a := apps[c[0]]
		app, err := a.app()
		if err != nil {
			return nil, nil, err
		}
		list = append(list, Scenario{App: app, Name: c[1], Load: load.Scale(a.peak), Hours: l.hours, Warmup: l.warmup})
	}
	return list, skipped, nil
}

// load returns the part of a trace or family to simulate, before scaling to the peak.
func (l *splitLoad) load(path string) (loadsim.Load, error) {
	if l.file == "" {
		return loadsim.Synthetic(l.family, l.set, l.hours, 1)
	}
	load, err := loadsim.ReadLoad(path)
	if err != nil {
		return loadsim.Load{}, err
	}
	if l.fill {
		load, _ = load.Fill()
	}
	if load, err = load.From(l.skip * 3600); err != nil {
		return loadsim.Load{}, err
	}
	if n := int(l.hours * 3600 / load.Step); n < len(load.PerSec) {
		load.PerSec = load.PerSec[:n]
		if load.Burst != nil {
			load.Burst = load.Burst[:n]
		}
	}
	return load, nil
}

func (a *splitApp) app() (App, error) {
	out := App{
		Name: a.name, Service: loadsim.Service{Workers: a.workers, Queue: 100, Timeout: 5 * a.latency, Retries: 1},
		Memory:   Memory{Base: a.base, CachePerRequest: a.cacheEach, CacheMax: a.cacheMax, LeakPerRequest: a.leak},
		Replicas: a.replicas, Request: mpa.Resources{CPU: a.cpu, Memory: a.memory},
		Target: mpa.Target{
			SLO:      mpa.SLO{Percentile: a.percentile, Latency: a.latency},
			Replicas: mpa.Range{Min: 2, Max: 40},
			Containers: []mpa.ContainerSpec{{
				Name: a.name, CPU: true, Memory: true,
				Min: mpa.Resources{CPU: 50, Memory: 64 << 20}, Max: mpa.Resources{CPU: 4000, Memory: 16 << 30},
			}},
		},
	}
	for _, name := range a.segments {
		segment, err := profile(name)
		if err != nil {
			return App{}, err
		}
		out.Segments = append(out.Segments, segment)
	}
	return out, nil
}

// Sides returns the sides of the split, in the order of their use.
func Sides() []string { return []string{"train", "test"} }
