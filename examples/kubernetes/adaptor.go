// SPDX-License-Identifier: Apache-2.0

// A sketch of a Kubernetes scheduler on Tenure: pod groups wait in Tenure's queues, a pass answers
// which of them are bound where and which are evicted. In a scheduler plugin the parts are: PreEnqueue
// submits the group, Permit waits for its start, Bind and the eviction API carry decisions out, pod
// informers report what happened. Here the API server is a few maps, so that it runs anywhere:
//
//	CGO_CFLAGS=-I<include> CGO_LDFLAGS="-L<lib> -ltenure" go run .
package main

// #include <stdlib.h>
// #include "adaptor.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"
)

// PodGroup is what a namespace asks for: members that run together or not at all.
type PodGroup struct {
	Name      string
	Namespace string
	Members   int
	GPUs      int           // of each member
	Minimum   time.Duration // not evicted before; 0: may be evicted at any time
}

// Binder carries decisions out; in a cluster it is the API server.
type Binder interface {
	Bind(group string, member int, node string)
	Evict(group string, grace time.Duration)
}

// Adaptor owns one scheduler. Not for concurrent use: give it one goroutine, as Tenure asks for one
// writer, and publish clones to readers.
type Adaptor struct {
	scheduler  *C.tenure_scheduler
	binder     Binder
	namespaces map[string]C.uint32_t
	nodes      map[C.uint32_t]string
	groups     map[C.uint64_t]PodGroup
	runs       map[C.uint64_t]C.uint32_t
	lastID     C.uint64_t
}

func check(status C.tenure_status) error {
	if status == C.TENURE_OK {
		return nil
	}
	return errors.New(C.GoString(C.tenure_last_error_message()))
}

func us(t time.Duration) C.int64_t { return C.int64_t(t.Microseconds()) }

// NewAdaptor makes a scheduler with the default policy and the options given.
func NewAdaptor(binder Binder, options map[string]string) (*Adaptor, error) {
	policy := C.CString("budget")
	defer C.free(unsafe.Pointer(policy))
	var o *C.tenure_options
	if err := check(C.tenure_options_create(policy, &o)); err != nil {
		return nil, err
	}
	defer C.tenure_options_destroy(o)
	for name, value := range options {
		n, v := C.CString(name), C.CString(value)
		err := check(C.tenure_options_set(o, n, v))
		C.free(unsafe.Pointer(n))
		C.free(unsafe.Pointer(v))
		if err != nil {
			return nil, err
		}
	}
	a := &Adaptor{binder: binder, namespaces: map[string]C.uint32_t{},
		nodes: map[C.uint32_t]string{}, groups: map[C.uint64_t]PodGroup{},
		runs: map[C.uint64_t]C.uint32_t{}}
	return a, check(C.tenure_scheduler_create(o, &a.scheduler))
}

// Close frees the scheduler.
func (a *Adaptor) Close() { C.tenure_scheduler_destroy(a.scheduler) }

// AddNode is for the node informer.
func (a *Adaptor) AddNode(name, gpuType string, gpus int, now time.Duration) error {
	n, t := C.CString(name), C.CString(gpuType)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(t))
	var id, typeID C.uint32_t
	if err := check(C.tenure_gpu_type_add(a.scheduler, t, &typeID)); err != nil {
		return err
	}
	err := check(C.tenure_node_add(a.scheduler, n, C.int32_t(gpus), typeID, C.TENURE_ROOT, us(now), &id))
	a.nodes[id] = name
	return err
}

// AddNamespace gives a namespace a share of the cluster.
func (a *Adaptor) AddNamespace(name string, weight float64, now time.Duration) error {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var id C.uint32_t
	err := check(C.tenure_allocation_add(a.scheduler, C.TENURE_ROOT, n, C.double(weight), us(now), &id))
	a.namespaces[name] = id
	return err
}

// Enqueue submits a pod group.
func (a *Adaptor) Enqueue(g PodGroup, now time.Duration) error {
	allocation, known := a.namespaces[g.Namespace]
	if !known {
		return fmt.Errorf("namespace %q has no budget", g.Namespace)
	}
	a.lastID++
	a.groups[a.lastID] = g
	return check(C.adaptor_submit(a.scheduler, a.lastID, allocation, C.uint32_t(g.Members),
		C.int32_t(g.GPUs), us(g.Minimum), us(now)))
}

// Schedule makes one pass and carries its decisions out.
func (a *Adaptor) Schedule(now time.Duration) error {
	pass := C.adaptor_pass_new(a.scheduler, us(now))
	if pass == nil {
		return errors.New(C.GoString(C.tenure_last_error_message()))
	}
	defer C.adaptor_pass_free(pass)
	for i := C.size_t(0); i < C.adaptor_starts(pass); i++ {
		start := C.adaptor_start(pass, i)
		for m := C.uint32_t(0); m < start.node_count; m++ {
			node := C.adaptor_start_node(pass, i, m)
			a.binder.Bind(a.groups[start.workload].Name, int(m), a.nodes[node])
		}
		a.runs[start.workload] = start.run
		if err := check(C.tenure_run_started(a.scheduler, start.workload, start.run, us(now), us(now))); err != nil {
			return err
		}
	}
	for i := C.size_t(0); i < C.adaptor_stops(pass); i++ {
		stop := C.adaptor_stop(pass, i)
		a.binder.Evict(a.groups[stop.workload].Name, time.Duration(stop.grace_us)*time.Microsecond)
	}
	return nil
}

// Gone is for the pod informer: the pods of an evicted group are gone.
func (a *Adaptor) Gone(group string, now time.Duration) error {
	for id, g := range a.groups {
		if g.Name == group {
			return check(C.tenure_run_stopped(a.scheduler, id, a.runs[id], us(now), us(now), nil))
		}
	}
	return fmt.Errorf("no group %q", group)
}

// printer stands for the API server.
type printer struct{ bound, evicted []string }

func (p *printer) Bind(group string, member int, node string) {
	p.bound = append(p.bound, group)
	fmt.Printf("bind %s-%d to %s\n", group, member, node)
}
func (p *printer) Evict(group string, grace time.Duration) {
	p.evicted = append(p.evicted, group)
	fmt.Printf("evict %s, grace %v\n", group, grace)
}

func run() error {
	p := &printer{}
	a, err := NewAdaptor(p, map[string]string{"lane_permille": "0", "quantum": "0s"})
	if err != nil {
		return err
	}
	defer a.Close()
	steps := []func() error{
		func() error { return a.AddNode("node-a", "h100", 8, 0) },
		func() error { return a.AddNode("node-b", "h100", 8, 0) },
		func() error { return a.AddNamespace("vision", 1, 0) },
		func() error { return a.AddNamespace("language", 1, 0) },
		// A gang without a minimum fills both nodes; then language asks for one of them.
		func() error { return a.Enqueue(PodGroup{"sweep", "vision", 2, 8, 0}, 0) },
		func() error { return a.Schedule(0) },
		func() error {
			return a.Enqueue(PodGroup{"train", "language", 1, 8, time.Hour}, time.Minute)
		},
		func() error { return a.Schedule(time.Minute) },
		func() error { return a.Gone("sweep", 2*time.Minute) },
		func() error { return a.Schedule(2 * time.Minute) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if len(p.bound) != 3 || p.bound[2] != "train" || len(p.evicted) != 1 {
		return fmt.Errorf("bound %v, evicted %v", p.bound, p.evicted)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
