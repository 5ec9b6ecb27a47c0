package sqlite

import (
	"context"

	"github.com/mcp-idem/mcp-idem/dedup"
)

const (
	// roundsQuery reads an operation's rounds, oldest first. ?2 says whether with their
	// questions.
	roundsQuery = `SELECT number, attempt, state, bare, downstream, answers, iif(?2, question, NULL)
		FROM rounds WHERE operation = ?1 ORDER BY number`
	addRound = `INSERT INTO rounds (operation, number, attempt, state, bare, downstream, answers, question)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	answerRound   = "UPDATE rounds SET answers = ? WHERE operation = ? AND number = ?"
	dropRounds    = "DELETE FROM rounds WHERE operation = ?"
	dropQuestions = "UPDATE rounds SET question = NULL WHERE operation = ? AND question IS NOT NULL"
)

// rounds are those of the operation of this number; of number 0, which none has, there
// are none.
func rounds(ctx context.Context, conn *connection, operation int64, withQuestions bool) (all []dedup.Round, err error) {
	err = conn.query(ctx, roundsQuery, func(c *columns) error {
		r := dedup.Round{Number: c.integer(), Attempt: c.integer()}
		c.array(r.State[:])
		r.Bare, r.Downstream = c.flag(), c.text()
		c.array(r.Answers[:])
		r.Question = c.blob()
		all = append(all, r)
		return nil
	}, operation, withQuestions)
	return all, err
}

// writeRounds writes what a change makes of an operation's rounds.
func (s *session) writeRounds(number int64, was dedup.Entry, c dedup.Change) error {
	if c.Entry.Row == 1 && c.Entry.Attempt > was.Attempt {
		if err := s.exec(dropRounds, number); err != nil {
			return err
		}
	}
	if r := c.Round; r != nil {
		if err := s.writeRound(number, *r); err != nil {
			return err
		}
	}
	asked := was.State == dedup.AwaitingInput || c.Entry.Round > 0
	if asked && !c.Entry.KeepsQuestions() {
		return s.exec(dropQuestions, number)
	}
	return nil
}

// writeRound writes the answers to a round that is known, else the round.
func (s *session) writeRound(number int64, r dedup.Round) error {
	known, err := s.conn.exec(answerRound, r.Answers[:], number, r.Number)
	if err != nil {
		return err
	}
	if n, err := known.RowsAffected(); n > 0 || err != nil {
		return err
	}
	return s.exec(addRound, number, r.Number, r.Attempt, r.State[:], r.Bare, r.Downstream, r.Answers[:], bytesOrNull(r.Question))
}
