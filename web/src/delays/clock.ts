// The endpoint's clock, as far as this page can know it.

/** Answers that are remembered: the quickest of them tells best, and clocks drift. */
const ANSWERS = 30;

export class EndpointClock {
  #answers: { trip: number; offset: number }[] = [];

  /**
   * Takes an answer: the endpoint's date in it and this machine's when it was asked and when it came, all in
   * ms.
   */
  take(there: number, asked: number, came: number): void {
    const trip = came - asked;
    if (Number.isFinite(there) && trip >= 0) {
      this.#answers = [...this.#answers, { trip, offset: there - (asked + came) / 2 }].slice(-ANSWERS);
    }
  }

  /**
   * The endpoint's date, in ms, when this machine's is `here`. Without an answer the two are taken for one.
   */
  at(here: number): number {
    const quickest = this.#answers.reduce<{ trip: number; offset: number } | undefined>(
      (best, answer) => (best === undefined || answer.trip < best.trip ? answer : best),
      undefined,
    );
    return here + (quickest?.offset ?? 0);
  }
}
