"""TRIPOD+AI: numbers and topics of the items as published, sentences of our own."""

from __future__ import annotations

from fedcsa.answer.checklists import answers as know
from fedcsa.answer.checklists.items import Checklist, ChecklistItem

TRIPOD_AI = Checklist(
    "TRIPOD+AI",
    "G. S. Collins and others: TRIPOD+AI statement. BMJ 2024;385:e078378 (27 items)",
    "10.1136/bmj-2023-078378",
    (
        ChecklistItem(
            "1",
            "Title",
            "Say that a model is developed or evaluated, for whom, for which outcome",
            know.title,
            "population and outcome",
        ),
        ChecklistItem("2", "Abstract", "Summarise the study as the list for abstracts asks"),
        ChecklistItem(
            "3a",
            "Background",
            "Explain the medical context, the reason for the study, and earlier models",
        ),
        ChecklistItem(
            "3b", "Background", "Say for whom the model is meant, for what, and who will use it"
        ),
        ChecklistItem("3c", "Background", "Name known inequalities of health between groups"),
        ChecklistItem(
            "4", "Objectives", "State the aims: development, evaluation, or both", know.objective
        ),
        ChecklistItem(
            "5a",
            "Data",
            "Describe where the data come from, why these, and whom they represent",
            know.data_sources,
            "origin of the rows, and whom they represent",
        ),
        ChecklistItem("5b", "Data", "Give the dates of recruitment and follow-up"),
        ChecklistItem(
            "6a",
            "Participants",
            "Describe the setting, with number and place of the centres",
            know.data_sources,
            "kind of care, and where",
        ),
        ChecklistItem("6b", "Participants", "Say who was eligible"),
        ChecklistItem(
            "6c", "Participants", "Say which treatments were given, and how they were handled"
        ),
        ChecklistItem(
            "7",
            "Data preparation",
            "Describe cleaning and quality checks, and whether groups were treated alike",
            know.preparation,
            "checks at the sites, in every group",
        ),
        ChecklistItem(
            "8a",
            "Outcome",
            "Define outcome and horizon, how and when it is assessed, and why it was chosen",
            know.outcome,
            "definition, horizon, assessment",
        ),
        ChecklistItem("8b", "Outcome", "Where judgement is needed, say who assessed the outcome"),
        ChecklistItem("8c", "Outcome", "Say whether assessors of the outcome were blinded"),
        ChecklistItem(
            "9a", "Predictors", "Say how the first set of predictors was chosen", part="D"
        ),
        ChecklistItem(
            "9b",
            "Predictors",
            "Define every predictor, how and when it is measured",
            know.feature_columns,
            "how and when each is measured",
        ),
        ChecklistItem(
            "9c", "Predictors", "Where judgement is needed, say who assessed the predictors"
        ),
        ChecklistItem(
            "10",
            "Sample size",
            "Explain the size of the study and why it is enough",
            know.sample_size,
            "why this is enough",
        ),
        ChecklistItem(
            "11",
            "Missing data",
            "Say how missing data were handled, and why rows were left out",
            know.missing_data,
            "rows that the sites left out before",
        ),
        ChecklistItem(
            "12a", "Analysis", "Say which data served which purpose", know.data_use, part="D"
        ),
        ChecklistItem(
            "12b",
            "Analysis",
            "Say how predictors entered: form, units, transformations",
            know.predictor_handling,
            part="D",
        ),
        ChecklistItem(
            "12c",
            "Analysis",
            "Name the model, the steps that made it, tuning and internal validation",
            know.model_building,
            "why this model",
            "D",
        ),
        ChecklistItem(
            "12d",
            "Analysis",
            "Say how differences between clusters were handled and measured",
            know.performance_differences,
        ),
        ChecklistItem(
            "12e",
            "Analysis",
            "Name the measures and plots of performance",
            know.measures_used,
            "why these",
        ),
        ChecklistItem(
            "12f", "Analysis", "Describe updates of the model that followed", know.updating
        ),
        ChecklistItem("12g", "Analysis", "Say how predictions were computed", know.prediction_rule),
        ChecklistItem(
            "13",
            "Class imbalance",
            "If classes were rebalanced, say why, how, and how that was undone",
            know.imbalance,
        ),
        ChecklistItem(
            "14",
            "Fairness",
            "Describe what was done about fairness, and why",
            know.fairness,
            "why these groups",
        ),
        ChecklistItem(
            "15",
            "Model output",
            "Say what the model puts out, and why thresholds were chosen",
            know.model_output,
            "why thresholds were chosen, or that there are none",
            "D",
        ),
        ChecklistItem(
            "16",
            "Training and evaluation",
            "Name differences between development and evaluation data",
            know.shift,
            "setting, eligibility, definition of the outcome",
        ),
        ChecklistItem(
            "17", "Ethical approval", "Name the ethics committee, and consent or its waiver"
        ),
        ChecklistItem("18a", "Funding", "Name the funders and their role"),
        ChecklistItem("18b", "Conflicts of interest", "Declare the authors' interests"),
        ChecklistItem(
            "18c",
            "Protocol",
            "Say where the protocol can be read",
            know.protocol,
            "where it can be read",
        ),
        ChecklistItem("18d", "Registration", "Give the registration, or say that there is none"),
        ChecklistItem(
            "18e",
            "Data sharing",
            "Say whether the data can be had",
            know.data_sharing,
            "how the data can be had",
        ),
        ChecklistItem("18f", "Code sharing", "Say where the code can be had", know.code),
        ChecklistItem(
            "19",
            "Patients and public",
            "Say how patients and the public were involved, or that they were not",
        ),
        ChecklistItem(
            "20a",
            "Participants",
            "Show the flow of participants, with and without the event",
            know.participants,
            "who was left out at each site",
        ),
        ChecklistItem(
            "20b",
            "Participants",
            "Report characteristics overall and for every site",
            know.characteristics,
            "dates, treatments, follow-up, missing data",
        ),
        ChecklistItem(
            "20c", "Participants", "Compare evaluation with development data", know.shift
        ),
        ChecklistItem(
            "21",
            "Model development",
            "Give the participants and events of every analysis",
            know.rows_and_events,
            "unweighted numbers of events",
        ),
        ChecklistItem(
            "22",
            "Model specification",
            "Give the whole model, so that others can use it",
            know.specification,
            "terms of use",
            "D",
        ),
        ChecklistItem(
            "23a",
            "Model performance",
            "Report performance with intervals, also in key subgroups",
            know.all_performance,
        ),
        ChecklistItem(
            "23b",
            "Model performance",
            "Report how performance differs between clusters",
            know.performance_by_source,
        ),
        ChecklistItem(
            "24", "Model updating", "Report the updated model and its performance", know.updated
        ),
        ChecklistItem(
            "25",
            "Interpretation",
            "Interpret the results, fairness included, beside earlier studies",
            know.interpretation,
            "fairness, and earlier studies",
        ),
        ChecklistItem(
            "26",
            "Limitations",
            "Discuss limitations and what they do to bias, uncertainty and generality",
            know.limitations,
            "what they mean here",
        ),
        ChecklistItem(
            "27a",
            "Usability",
            "Say what to do with poor or missing input",
            know.missing_data,
            "what to do at the bedside",
            "D",
        ),
        ChecklistItem(
            "27b", "Usability", "Say what users must do, and what they must know", part="D"
        ),
        ChecklistItem(
            "27c",
            "Usability",
            "Discuss next steps, with a view to other settings",
            know.next_steps,
            "further research",
        ),
    ),
)
