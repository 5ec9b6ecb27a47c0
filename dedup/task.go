package dedup

import (
	"context"
	"errors"
	"time"
)

// A TaskStatus is how a task has ended that an upstream goes on with by itself, in the
// words of the Model Context Protocol (2025-11-25, tasks). Empty: nobody has seen its
// end. The words are written into ledgers.
type TaskStatus string

// The statuses after which nothing changes any more.
const (
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

// Terminal reports whether a task of this status has ended.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// Task returns the operation that was answered with a task, of the scope's namespace;
// ErrNotFound where it has none.
func (l *Ledger) Task(ctx context.Context, scope Scope, task string) (Entry, error) {
	id, err := l.taskOf(ctx, scope, task)
	if err != nil {
		return Entry{}, err
	}
	return l.Operation(ctx, scope.Namespace, id)
}

// taskOf finds the operation that was answered with a task, by the scope's own upstream
// or under a name that it had before.
func (l *Ledger) taskOf(ctx context.Context, scope Scope, task string) (OperationID, error) {
	id, err := l.store.TaskOf(ctx, l.info.Secret.task(scope, task))
	if !errors.Is(err, ErrNotFound) {
		return id, err
	}
	renames, err := l.store.Renames(ctx)
	if err != nil {
		return OperationID{}, err
	}
	for _, former := range formerly(scope.Address(), renames) {
		scope.Upstream, scope.Account = former.Upstream, former.Account
		if id, err := l.store.TaskOf(ctx, l.info.Secret.task(scope, task)); !errors.Is(err, ErrNotFound) {
			return id, err
		}
	}
	return OperationID{}, ErrNotFound
}

// TaskEnded notes how a task has ended with which the upstream of the scope has
// answered an operation, and returns that as it stands then. It changes no state: the
// operation was answered, and only what is known of the effect grows. The first end of
// a task counts. ErrNotFound where no operation was answered with the task.
func (l *Ledger) TaskEnded(ctx context.Context, scope Scope, task string, status TaskStatus) (Entry, error) {
	id, err := l.taskOf(ctx, scope, task)
	if err != nil {
		return Entry{}, err
	}
	var ended Entry
	err = l.store.Move(ctx, id, func(e Entry, _ time.Time) (Change, bool) {
		ended = e
		if e.State != Completed || e.TaskStatus != "" || !status.Terminal() {
			return Change{}, false
		}
		ended.TaskStatus, ended.IsError = status, status != TaskCompleted
		return Change{Entry: ended, Event: Event{Row: e.Row, Attempt: e.Attempt, State: e.State, Note: "task " + string(status)}}, true
	})
	return ended, err
}
