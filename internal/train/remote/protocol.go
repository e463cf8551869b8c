package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/swarm"
)

// protocol is raised when the messages change.
const protocol = 1

// Deliveries is the number of deliveries of a task after which it counts as poison.
const Deliveries = 5

const (
	runsSubject   = "sigma.runs"
	announceEvery = 250 * time.Millisecond
	silentAfter   = 15 * time.Second // without an announcement a run is over
	jobObject     = "job"

	tasksConsumer   = "workers"
	resultsConsumer = "trainer"
)

func streamName(run string) string    { return "sigma-" + run }
func taskSubject(run string) string   { return "sigma.run." + run + ".task" }
func resultSubject(run string) string { return "sigma.run." + run + ".result" }

// runName depends on everything that determines a value.
func runName(job string, b Build) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", protocol, job, b.Digest))
	return hex.EncodeToString(sum[:16])
}

// A Build identifies a program. Two builds are the same when their digests are equal;
// the rest is for people.
type Build struct {
	Digest         string // of the executable file
	Version        string // of the module
	FeatureVersion int
	Platform       string
}

// ThisBuild describes this process.
var ThisBuild = sync.OnceValues(func() (Build, error) {
	b := Build{
		Version: "unknown", FeatureVersion: policy.FeatureVersion,
		Platform: runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
	}
	path, err := os.Executable()
	if err != nil {
		return b, fmt.Errorf("which program is this: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return b, fmt.Errorf("which program is this: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return b, fmt.Errorf("which program is this: %w", err)
	}
	b.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return b, nil
})

func (b Build) String() string {
	return fmt.Sprintf("%s, features %d, %s, %.19s…", b.Version, b.FeatureVersion, b.Platform, b.Digest)
}

// An announcement is the message that a trainer publishes periodically.
type announcement struct {
	Protocol int
	Run      string
	Trainer  string // differs from trainer to trainer, also of one run
	Build    Build
	Over     bool
}

// A number is a float64 that keeps its bits in JSON, also when it is not finite.
type number float64

func (n number) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

func (n *number) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*n = number(v)
	return err
}

type taskMessage struct {
	Generation, Index int
	X                 []number
}

type resultMessage struct {
	Generation, Index int
	Value             number
	Objectives        []number `json:",omitempty"`
	Worker            string
	Error             string `json:",omitempty"`
}

func numbers(vs []float64) []number {
	out := make([]number, len(vs))
	for i, v := range vs {
		out[i] = number(v)
	}
	return out
}

func floats(ns []number) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = float64(n)
	}
	return out
}

func (m taskMessage) task() swarm.Task {
	return swarm.Task{Generation: m.Generation, Index: m.Index, X: floats(m.X)}
}

// encode writes a message of ours, which cannot fail.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("remote: %v", err))
	}
	return data
}
