//go:build e2e

package e2e_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A member is a Deployment under load, its autoscaler, and the history of both.
type member struct {
	name     string
	load     *e2e.Workload
	proxy    *e2e.FaultProxy // in front of its Prometheus; nil = none
	feed     *e2e.Feed       // of its PodMetrics; nil = none
	max      int32
	requests atomic.Uint64

	mu         sync.Mutex
	replicas   []seen[int32]                // the changes in the Deployment's spec
	sizes      map[types.UID][]seen[string] // the changes in a pod's spec
	conditions map[string]bool              // by type, status and reason: whether the autoscaler ever had it
}

// A seen value, and the time.
type seen[T any] struct {
	at    time.Time
	value T
}

func note[T comparable](list []seen[T], value T) []seen[T] {
	if n := len(list); n > 0 && list[n-1].value == value {
		return list
	}
	return append(list, seen[T]{time.Now(), value})
}

// set sets the rate of arriving requests.
func (m *member) set(rate float64) { m.requests.Store(math.Float64bits(rate)) }

// changes returns how often replicas and pods' requests were changed so far.
func (m *member) changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.replicas)
	for _, list := range m.sizes {
		n += len(list) - 1
	}
	return n
}

func (m *member) counts() (list []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.replicas {
		list = append(list, s.value)
	}
	return list
}

// hadCondition reports whether the autoscaler ever had a condition.
func (m *member) hadCondition(kind string, status metav1.ConditionStatus, reason string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions[fmt.Sprint(kind, status, reason)]
}

// last returns the present number of wanted replicas.
func (m *member) last() int32 {
	counts := m.counts()
	return counts[len(counts)-1]
}

// A memberSpec describes a member. By default its pods have half a core, which can serve 80
// requests per second; hpa+vpa aims at 40.
type memberSpec struct {
	replicas, max          int32
	rate                   float64
	load                   e2e.Load // instead of the rate, if not nil
	mode                   v1alpha1.Mode
	algorithm, policy      string
	learning               map[string]any
	usage                  v1alpha1.UsageSource
	prometheus             string // name of its server
	cpu, memory, maxMemory string
	edit                   func(*appsv1.Deployment)
}
